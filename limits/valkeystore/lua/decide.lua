-- One decision over all buckets of an attempt: all are charged, or none [L1].
--
-- KEYS     the buckets, in order of the charges, then the facts; no key twice
-- ARGV[1]  header: I6 now in ms (0: the server's clock), I6 deadline in ms (0: none), 8 bytes id of the attempt, B facts
--          then for each charge: B kind (1 window, 2 tokens, 3 failures), B log-only, B form (0 429, 1 uniform, 2 silent),
--          B flags (1: charged although the refusal is silent, 2: shadowed, 4: tell what is left, 8: conditional),
--          I4 limit, I4 window in ms, I4 burst, I4 lease in ms; then for each conditional charge, right after it: I4 facts of
--          which one must be known (0: always), I4 facts of which none may be, by bits
-- reply    0 or more: admitted, nothing to tell but which facts are known, by bits. -1: later than the deadline, nothing was
--          done. Otherwise an array: 1 admitted or 0 refused, number of refusals, known facts, for each refusal: charge (from 1),
--          cause (1 full, 2 locked, 3 held), wait in ms, then for each charge with flag 4: what is left, ms until the bucket is whole
-- holds    no key is written unless it is charged; every written key has a TTL no shorter than its state means anything;
--          a key that was found without a TTL gets one, even by a refusal [L13]
--
-- State of a window (little endian): B 1 | I6 start | I4 count. Of tokens: B 2 | I6 time | I6 tokens then, times window | I4 window.

local floor, ceil = math.floor, math.ceil
local at, deadline, id, facts, pos = sunpack('<I6I6c8B', ARGV[1])
local now, expire, from = at, 'PX', 0
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + floor(t[2] / 1000)
  expire, from = 'PXAT', now -- the server would reckon so itself, and rewrite the command
end
if deadline > 0 and now > deadline then return -1 end

local states = redis.call('MGET', unpack(KEYS)) -- of those that are charged, they become the new ones
-- The list has its room from the start, and other tables are made when there is something for them: making room costs more than a charge.
local ttls, refusals, onsilent, quotas = {false, false, false, false, false, false, false, false}, nil, nil, nil
local admitted, silent, known = 1, true, 0
local charges = #KEYS - facts
for i = 1, facts do
  if states[charges + i] then known = known + 2 ^ (i - 1) end
end

-- A short bucket with one more reservation, and how long that must be kept; nil if it is not short, or has no room, or something in
-- it has ended or lies after now.
local function reserve_short(s, window, limit, id, ends, now)
  local unpack = struct.unpack
  local kind, was, n = unpack('<BI4I4', s)
  if kind ~= 6 or was ~= window then return nil end
  local log_end, kept = 9 + n * 6, ends
  if n + (#s - log_end) / 14 >= limit then return nil end
  if n > 0 then
    local last = unpack('<I6', s, log_end - 5)
    if last > now or now - unpack('<I6', s, 10) >= window then return nil end
    if last + window > kept then kept = last + window end
  end
  if #s > log_end and (unpack('<I6', s, log_end + 9) <= now or unpack('<I6', s, #s - 5) > ends) then return nil end
  return s .. id .. struct.pack('<I6', ends), kept - now
end

for i = 1, charges do
  local kind, logonly, form, flags, limit, window, burst, lease
  kind, logonly, form, flags, limit, window, burst, lease, pos = sunpack('<BBBBI4I4I4I4', ARGV[1], pos)
  local idle = false
  if flags >= 8 then
    local one, none
    one, none, pos = sunpack('<I4I4', ARGV[1], pos)
    idle = one > 0 and bit.band(known, one) == 0 or bit.band(known, none) ~= 0
  end
  local s = states[i]
  local cause, wait, value, ttl = 0, 0, nil, false
  local left, reset, later = 0, 0, 0 -- what is left, when it is whole, and when it is whole if it is charged

  if idle then -- no part in this attempt
    reset = 0
  elseif kind == 1 then
    local start, count = now, 0
    if s and #s == 11 then
      local was, from, n = sunpack('<BI6I4', s)
      if was == 1 then start, count = window_at(from, n, window, now) end
    end
    reset = start + window - now
    if flags % 8 >= 4 then left, later = max(0, limit - count), reset end
    if count < limit then
      value, ttl = spack('<BI6I4', 1, start, count + 1), reset
    else
      cause, wait = 1, reset
    end

  elseif kind == 2 then
    local full = burst * window
    local units = full
    if s and #s == 17 then
      local was, last, held, span = sunpack('<BI6I6I4', s)
      if was == 2 then
        if span ~= window then
          local whole = floor(held / span)
          held = min(whole, burst) * window + floor((held - whole * span) * window / span)
        end
        if now > last then held = held + (now - last) * limit end -- no longer exact only far above what is full
        if held < full then units = held end
      end
    end
    if flags % 8 >= 4 then
      left, reset, later = floor(units / window), ceil((full - units) / limit), ceil((full - units + window) / limit)
    end
    if units >= window then
      value, ttl = spack('<BI6I6I4', 2, now, units - window, window), ceil(full / limit)
    else
      cause, wait = 1, ceil((window - units) / limit)
    end

  elseif not s then
    value, ttl = spack('<BI4I4c8I6', 6, window, 0, id, now + lease), lease -- a short state with one reservation

  else
    value, ttl = reserve_short(s, window, limit, id, now + lease, now)
    if not value then
      local f = load_failures(s, window, now)
      local n = #f.log / 6
      if now < f.locked then
        cause, wait = 2, f.locked - now
      elseif n >= limit then
        cause, wait = 1, sunpack('<I6', f.log, (n - limit) * 6 + 1) + window - now
      elseif flags % 4 >= 2 and f.nc >= limit * 10 then -- shadows: 10 and 5 times the limit [L16]
        cause, wait = 1, min(f.ns, now) + window - now
      elseif flags % 4 >= 2 and f.pc >= limit * 5 then
        cause, wait = 1, min(f.ps, now) + window - now
      elseif n + #f.live / 14 >= limit then
        cause, wait = 3, sunpack('<I6', f.live, 9) - now
      else
        f.live = add_live(f.live, id, now + lease)
        value, ttl = save_failures(f, window, now)
      end
    end
  end

  if value then
    states[i], ttls[i] = value, ttl
  elseif cause > 0 then
    refusals = refusals or {}
    local r = #refusals
    refusals[r + 1], refusals[r + 2], refusals[r + 3] = i, cause, wait
    if logonly == 0 then
      admitted = 0
      silent = silent and form == 2
    end
  end
  if flags % 2 == 1 then
    onsilent = onsilent or {}
    onsilent[i] = true
  end
  if flags % 8 >= 4 then
    quotas = quotas or {}
    quotas[#quotas + 1] = {i, left, reset, later}
  end
end

for i = 1, charges do
  if ttls[i] and (admitted == 1 or silent and onsilent and onsilent[i]) then
    redis.call('SET', KEYS[i], states[i], expire, from + ttls[i])
  else
    ttls[i] = false
    if states[i] then rearm(KEYS[i]) end
  end
end
for i = charges + 1, #KEYS do
  if states[i] then rearm(KEYS[i]) end
end

if not refusals and not quotas then return known end
local reply = {admitted, refusals and #refusals / 3 or 0, known}
for i = 1, refusals and #refusals or 0 do reply[#reply + 1] = refusals[i] end
for i = 1, quotas and #quotas or 0 do
  local q = quotas[i]
  local left, reset = q[2], q[3]
  if ttls[q[1]] then left, reset = left - 1, q[4] end
  reply[#reply + 1], reply[#reply + 2] = left, reset
end
return reply
