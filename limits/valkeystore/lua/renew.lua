-- New leases for the reservations of an attempt that is still in flight [L6].
--
-- KEYS     its failure buckets
-- ARGV[1]  I6 now in ms (0: the server's clock), 8 bytes id of the attempt, then for each bucket: I4 window in ms, I4 lease in ms
-- reply    how many reservations were alive
-- holds    a reservation that has ended stays ended; nothing is created

local at, id, pos = sunpack('<I6c8', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local renewed = 0
for i = 1, #KEYS do
  local window, lease
  window, lease, pos = sunpack('<I4I4', ARGV[1], pos)
  local s = redis.call('GET', KEYS[i])
  if s then
    local f = load_failures(s, window, now)
    local place = find_live(f.live, id, 1)
    if place then
      f.live = add_live(sub(f.live, 1, place - 1) .. sub(f.live, place + 14), id, now + lease)
      local value, ttl = save_failures(f, window, now)
      redis.call('SET', KEYS[i], value, 'PX', ttl)
      renewed = renewed + 1
    else
      rearm(KEYS[i])
    end
  end
end
return renewed
