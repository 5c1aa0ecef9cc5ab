-- Failure buckets: how one is read as it stands now, and written back. Joined in front of the scripts that need it.
--
-- State (little endian): B 3 | I4 window | I6 locked until | I4 count that locked | I4 level | I6 quiet since |
--   I6 start and I4 count of the neutral shadow | the same of the pending shadow | I6 end of the first lease |
--   I4 failures n | n * I6 time of a failure, oldest first | for each reservation: 8 bytes id, I6 end of its lease
-- Times are milliseconds since the epoch. A stored time after now counts as now, but for ends.
-- The arithmetic is that of limits.FailureLog; one suite of cases runs through both.

local spack, sunpack, sub, byte, min, max = struct.pack, struct.unpack, string.sub, string.byte, math.min, math.max
local HEAD, HEAD_SIZE = '<BI4I6I4I4I6I6I4I6I4I6I4', 55

-- The bucket in s (a string, or false) at now: aged failures, ended leases and an old level are left out.
local function load_failures(s, window, now)
  local f = {locked = 0, count = 0, level = 0, quiet = 0, ns = 0, nc = 0, ps = 0, pc = 0, lease = 0, log = '', live = ''}
  if not s or byte(s, 1) ~= 3 then return f end
  local _, n
  _, _, f.locked, f.count, f.level, f.quiet, f.ns, f.nc, f.ps, f.pc, f.lease, n = sunpack(HEAD, s)
  local first, last = HEAD_SIZE + 1, HEAD_SIZE + n * 6
  while first <= last and now - sunpack('<I6', s, first) >= window do first = first + 6 end
  f.log = sub(s, first, last)
  local future = #f.log / 6 -- failures dated after now are at the end, if any
  while future > 0 and sunpack('<I6', f.log, future * 6 - 5) > now do future = future - 1 end
  if future < #f.log / 6 then
    f.log = sub(f.log, 1, future * 6) .. string.rep(spack('<I6', now), #f.log / 6 - future)
  end
  f.live = sub(s, last + 1)
  if #f.live > 0 and now >= f.lease then
    local kept = {}
    f.lease = 0
    for i = 1, #f.live, 14 do
      local ends = sunpack('<I6', f.live, i + 8)
      if now < ends then
        kept[#kept + 1] = sub(f.live, i, i + 13)
        f.lease = f.lease == 0 and ends or min(f.lease, ends)
      end
    end
    f.live = table.concat(kept)
  end
  if f.level > 0 and now - f.quiet >= window then f.level, f.quiet = 0, 0 end
  if now >= f.locked then f.locked, f.count = 0, 0 end
  return f
end

-- The state of f, and how long it must be kept; nil when nothing is left to keep.
local function save_failures(f, window, now)
  local n, ends, lease = #f.log / 6, 0, 0
  if n > 0 then ends = sunpack('<I6', f.log, n * 6 - 5) + window end
  for i = 9, #f.live, 14 do
    local over = sunpack('<I6', f.live, i)
    ends = max(ends, over)
    lease = lease == 0 and over or min(lease, over)
  end
  ends = max(ends, f.locked)
  if f.level > 0 then ends = max(ends, f.quiet + window) end
  if f.nc > 0 then ends = max(ends, f.ns + window) end
  if f.pc > 0 then ends = max(ends, f.ps + window) end
  if ends <= now then return nil end
  return spack(HEAD, 3, window, f.locked, f.count, f.level, f.quiet, f.ns, f.nc, f.ps, f.pc, lease, n) .. f.log .. f.live, ends - now
end

-- A key that was found without a time to live gets one: a lock and the window after it, of 30 days each, are the longest
-- that any state means something [L13].
local function rearm(key)
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, 5184000000) end
end

-- Where the reservation id is in f.live, or nil. Ids are compared at their places only.
local function find_live(f, id)
  local from = 1
  while true do
    local at = string.find(f.live, id, from, true)
    if not at then return nil end
    if at % 14 == 1 then return at end
    from = at + 1
  end
end

-- The start and count of a fixed window at now, and how long it has been full for a limit (0: it has room).
local function window_at(start, count, window, now)
  if start > now then start = now end
  if count == 0 or now - start >= window then return now, 0 end
  return start, count
end
