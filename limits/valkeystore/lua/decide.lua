-- One decision over all buckets of an attempt: all are charged, or none [L1].
--
-- KEYS     the buckets, in order of the charges, then the facts; no key twice
-- ARGV[1]  header: I6 now in ms (0: the server's clock), I6 deadline in ms (0: none), 8 bytes id of the attempt, B facts
--          then for each charge: B kind (1 window, 2 tokens, 3 failures), B log-only, B form (0 429, 1 uniform, 2 silent),
--          B flags (1: charged although the refusal is silent, 2: shadowed, 4: tell what is left, 8: conditional),
--          I4 limit, I4 window in ms, I4 burst, I4 lease in ms; then for each conditional charge, right after it: I4 facts of
--          which one must be known (0: always), I4 facts of which none may be, by bits
-- reply    0 or more: admitted, nothing to tell but which facts are known, by bits. -1: later than the deadline, nothing was
--          done. Otherwise an array: 1 admitted or 0 refused, number of refusals, known facts, for each refusal: charge (from 1), cause (1 full, 2 locked, 3 held), wait in ms,
--          then for each charge with flag 4: what is left, ms until the bucket is whole
-- holds    no key is written unless it is charged; every written key has a TTL no shorter than its state means anything;
--          a key that was found without a TTL gets one, even by a refusal [L13]

local at, deadline, id, facts, pos = sunpack('<I6I6c8B', ARGV[1])
local now = at
if at == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if deadline > 0 and now > deadline then return -1 end

local states = redis.call('MGET', unpack(KEYS))
local values, ttls, onsilent, refusals, quotas = {}, {}, {}, {}, {}
local admitted, silent, known = 1, true, 0
local charges = #KEYS - facts
for i = 1, facts do
  if states[charges + i] then known = known + 2 ^ (i - 1) end
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
  local cause, wait = 0, 0
  local left, reset, later = 0, 0, 0 -- what is left, when it is whole, and when it is whole if it is charged

  if idle then -- no part in this attempt
    reset = 0
  elseif kind == 1 then
    local start, count = now, 0
    if s and byte(s, 1) == 1 then
      local _
      _, start, count = sunpack('<BI6I4', s)
      start, count = window_at(start, count, window, now)
    end
    reset = start + window - now
    left, later = max(0, limit - count), reset
    if count < limit then
      values[i], ttls[i] = spack('<BI6I4', 1, start, count + 1), reset
    else
      cause, wait = 1, reset
    end

  elseif kind == 2 then
    local full = burst * window
    local units = full
    if s and byte(s, 1) == 2 then
      local _, last, span
      _, last, units, span = sunpack('<BI6I6I4', s)
      if span ~= window then
        local whole = math.floor(units / span)
        units = min(whole, burst) * window + math.floor((units - whole * span) * window / span)
      end
      if units < full and now > last then
        if now - last >= math.ceil((full - units) / limit) then
          units = full
        else
          units = units + (now - last) * limit
        end
      end
      units = min(units, full)
    end
    left, reset, later = math.floor(units / window), math.ceil((full - units) / limit), math.ceil((full - units + window) / limit)
    if units >= window then
      values[i], ttls[i] = spack('<BI6I6I4', 2, now, units - window, window), math.ceil(full / limit)
    else
      cause, wait = 1, math.ceil((window - units) / limit)
    end

  else
    local f = load_failures(s, window, now)
    local n = #f.log / 6
    if now < f.locked then
      cause, wait = 2, f.locked - now
    elseif n >= limit then
      cause, wait = 1, sunpack('<I6', f.log, (n - limit) * 6 + 1) + window - now
    else
      if flags % 4 >= 2 then -- shadows: 10 and 5 times the limit [L16]
        local start, count = window_at(f.ns, f.nc, window, now)
        if count >= limit * 10 then cause, wait = 1, start + window - now end
        if cause == 0 then
          start, count = window_at(f.ps, f.pc, window, now)
          if count >= limit * 5 then cause, wait = 1, start + window - now end
        end
      end
      if cause == 0 then
        if n + #f.live / 14 >= limit then
          cause, wait = 3, f.lease - now
        else
          f.live = f.live .. id .. spack('<I6', now + lease)
          values[i], ttls[i] = save_failures(f, window, now)
        end
      end
    end
  end

  if cause > 0 then
    local r = #refusals
    refusals[r + 1], refusals[r + 2], refusals[r + 3] = i, cause, wait
    if logonly == 0 then
      admitted = 0
      silent = silent and form == 2
    end
  end
  if flags % 2 == 1 then onsilent[i] = true end
  if flags % 8 >= 4 then
    quotas[#quotas + 1] = {i, left, reset, later}
  end
end

for i = 1, charges do
  if values[i] and (admitted == 1 or (silent and onsilent[i])) then
    redis.call('SET', KEYS[i], values[i], 'PX', ttls[i])
  else
    values[i] = nil
    if states[i] then rearm(KEYS[i]) end
  end
end
for i = charges + 1, #KEYS do
  if states[i] then rearm(KEYS[i]) end
end

if admitted == 1 and #refusals == 0 and #quotas == 0 then return known end
local reply = {admitted, #refusals / 3, known}
for i = 1, #refusals do reply[#reply + 1] = refusals[i] end
for i = 1, #quotas do
  local q = quotas[i]
  local left, reset = q[2], q[3]
  if values[q[1]] then left, reset = left - 1, q[4] end
  reply[#reply + 1], reply[#reply + 2] = left, reset
end
return reply
