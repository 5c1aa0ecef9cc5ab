-- Failure buckets: how one is read as it stands now, and written back. Joined in front of the scripts that need it.
--
-- State (little endian): B 3 | I4 window | I4 failures n | I6 locked until | I4 count that locked | I4 level | I6 quiet since |
--   I6 start and I4 count of the neutral shadow | the same of the pending shadow |
--   n * I6 time of a failure, oldest first | for each reservation, the first to end first: 8 bytes id, I6 end of its lease
-- A bucket without lock, level and shadows, as most are, is short: B 6 | I4 window | I4 failures n | failures | reservations.
-- Times are milliseconds since the epoch. A stored time after now counts as now, but for ends.
-- The arithmetic is that of limits.FailureLog; one suite of cases runs through both.
--
-- These run for every login, so: no function refers to a local outside it, since such a reference is made anew for every
-- call of the script, which costs as much as reading a state; and short states are changed as they are, without being
-- taken apart into a table.

local spack, sunpack, sub, byte, min, max = struct.pack, struct.unpack, string.sub, string.byte, math.min, math.max

-- The bucket in s (a string, or false) at now: aged failures and shadows, ended leases and an old level are left out.
local function load_failures(s, window, now)
  local unpack, sub = struct.unpack, string.sub
  local f = {locked = 0, count = 0, level = 0, quiet = 0, ns = 0, nc = 0, ps = 0, pc = 0, log = '', live = ''}
  if not s then return f end
  local kind, _, n = unpack('<BI4I4', s)
  local first = 10
  if kind == 3 then
    first = 50
    f.locked, f.count, f.level, f.quiet, f.ns, f.nc, f.ps, f.pc = unpack('<I6I4I4I6I6I4I6I4', s, 10)
  elseif kind ~= 6 then
    return f
  end
  local last = first + n * 6 - 1
  while first <= last and now - unpack('<I6', s, first) >= window do first = first + 6 end
  f.log = sub(s, first, last)
  local future = #f.log / 6 -- failures dated after now are at the end, if any
  while future > 0 and unpack('<I6', f.log, future * 6 - 5) > now do future = future - 1 end
  if future < #f.log / 6 then
    f.log = sub(f.log, 1, future * 6) .. string.rep(struct.pack('<I6', now), #f.log / 6 - future)
  end
  local live = last + 1
  while live < #s and unpack('<I6', s, live + 8) <= now do live = live + 14 end
  f.live = sub(s, live)
  if f.level > 0 and now - f.quiet >= window then f.level, f.quiet = 0, 0 end
  if now >= f.locked then f.locked, f.count = 0, 0 end
  if now - f.ns >= window then f.ns, f.nc = 0, 0 end
  if now - f.ps >= window then f.ps, f.pc = 0, 0 end
  return f
end

-- The state of f, and how long it must be kept; nil when nothing is left to keep.
local function save_failures(f, window, now)
  local unpack, max = struct.unpack, math.max
  local n, ends = #f.log / 6, 0
  if n > 0 then ends = unpack('<I6', f.log, n * 6 - 5) + window end
  if f.live ~= '' then ends = max(ends, unpack('<I6', f.live, #f.live - 5)) end
  local head
  if f.locked == 0 and f.level == 0 and f.nc == 0 and f.pc == 0 then
    head = struct.pack('<BI4I4', 6, window, n)
  else
    ends = max(ends, f.locked)
    if f.level > 0 then ends = max(ends, f.quiet + window) end
    if f.nc > 0 then ends = max(ends, f.ns + window) end
    if f.pc > 0 then ends = max(ends, f.ps + window) end
    head = struct.pack('<BI4I4I6I4I4I6I6I4I6I4', 3, window, n, f.locked, f.count, f.level, f.quiet, f.ns, f.nc, f.ps, f.pc)
  end
  if ends <= now then return nil end
  return head .. f.log .. f.live, ends - now
end

-- A key that was found without a time to live gets one: a lock and the window after it, of 30 days each, are the longest
-- that any state means something [L13].
local function rearm(key)
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, 5184000000) end
end

-- Where the reservation id is in s, in which there are only reservations from first on, or nil. Ids are compared at their places only.
local function find_live(s, id, first)
  local from = first
  while true do
    local at = string.find(s, id, from, true)
    if not at then return nil end
    if (at - first) % 14 == 0 then return at end
    from = at + 1
  end
end

-- The reservations with one more, after those that end before it or with it: last, unless leases have become shorter.
local function add_live(live, id, ends)
  local at = #live
  while at > 0 and struct.unpack('<I6', live, at - 5) > ends do at = at - 14 end
  return string.sub(live, 1, at) .. id .. struct.pack('<I6', ends) .. string.sub(live, at + 1)
end

-- The start and count of a fixed window at now, and how long it has been full for a limit (0: it has room).
local function window_at(start, count, window, now)
  if start > now then start = now end
  if count == 0 or now - start >= window then return now, 0 end
  return start, count
end
