-- For tests only: joined in front of a script, it makes keys live and end in the virtual time that the script is given as now,
-- and fails where a script touches a key that it did not declare, or that it declared twice, or sets a time to live that is no
-- whole number of milliseconds above 0. When each key ends is kept in one hash for each prefix.

local server, redis = redis, nil
local virtual_now = struct.unpack('<I6', ARGV[1])
if virtual_now == 0 then error('this script was not given a virtual time') end
local ends = 'ends:' .. string.match(KEYS[1], '^[^:]*')

local declared = {}
for i = 1, #KEYS do
  if declared[KEYS[i]] then error('declared twice: ' .. KEYS[i]) end
  declared[KEYS[i]] = true
end

local function known(key)
  if not declared[key] then error('not declared: ' .. tostring(key)) end
  return key
end

-- How long the key lives on: -1 for ever, -2 there is none.
local function left(key)
  if server.call('EXISTS', key) == 0 then return -2 end
  local at = server.call('HGET', ends, key)
  if not at then return -1 end
  at = tonumber(at)
  return at > virtual_now and at - virtual_now or -2
end

local function keep(key, ttl)
  ttl = tonumber(ttl)
  if not ttl or ttl < 1 or ttl ~= math.floor(ttl) then error('no time to live: ' .. tostring(ttl) .. ' of ' .. key) end
  server.call('HSET', ends, key, string.format('%013d', virtual_now + ttl))
end

local function forget(key)
  server.call('HDEL', ends, key)
  return server.call('DEL', key)
end

-- An operation on a sorted set begins with a new one where the old one has ended.
local function onset(command)
  return function(key, ...)
    if left(key) == -2 then forget(known(key)) end
    return server.call(command, known(key), ...)
  end
end

local commands = {
  TIME = function() error('the clock of the server, in virtual time') end,
  GET = function(key) return left(known(key)) ~= -2 and server.call('GET', key) end,
  MGET = function(...)
    local out = {}
    for i, key in ipairs({...}) do out[i] = left(known(key)) ~= -2 and server.call('GET', key) end
    return out
  end,
  SET = function(key, value, px, ttl)
    if px ~= 'PX' then error('SET without a time to live: ' .. key) end
    keep(known(key), ttl)
    return server.call('SET', key, value)
  end,
  DEL = function(...)
    local n = 0
    for _, key in ipairs({...}) do n = n + forget(known(key)) end
    return n
  end,
  PTTL = function(key) return left(known(key)) end,
  PEXPIRE = function(key, ttl, only)
    local was = left(known(key))
    if was == -2 or only and (only ~= 'GT' or was == -1 or was >= ttl) then return 0 end
    keep(key, ttl)
    return 1
  end,
  ZADD = onset('ZADD'), ZREM = onset('ZREM'), ZRANGE = onset('ZRANGE'),
}
redis = {call = function(command, ...)
  if not commands[command] then error('no such command in virtual time: ' .. command) end
  return commands[command](...)
end}
