-- What is kept in records.
--
-- KEYS     the records
-- ARGV[1]  I6 now in ms (0: the server's clock), for the sake of those who test
-- reply    array of the texts, false where there is none
-- holds    nothing is changed; a record that was found without a TTL gets one [L13]

local _ = sunpack('<I6', ARGV[1]) -- no time is needed
local texts = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if texts[i] then rearm(KEYS[i]) end
end
return texts
