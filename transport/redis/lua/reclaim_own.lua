#!lua flags=allow-oom
-- XCLAIM what is still this worker's: while a worker was stopped, another may have taken its jobs.
-- Returns XCLAIM's answers, one after the other.
-- KEYS: a queue. ARGV: group; worker; how many ids; the ids; options of XCLAIM.
local group, worker, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local kept = {}
for i = 4, 3 + count do
  if #redis.call('XPENDING', KEYS[1], group, ARGV[i], ARGV[i], 1, worker) == 1 then
    local claimed = redis.call(
      'XCLAIM', KEYS[1], group, worker, 0, ARGV[i], unpack(ARGV, 4 + count))
    if claimed[1] then
      kept[#kept + 1] = claimed[1]
    end
  end
end
return kept
