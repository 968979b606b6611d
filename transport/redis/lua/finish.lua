#!lua flags=allow-oom
-- Answer a job and forget it. Returns 0 where somebody else did.
-- KEYS, 6: the reply stream. ARGV: lane; group; entry id; tokens; job id; dedup ms; chunks.
if not remove(tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]) then
  return 0
end
redis.call('PEXPIRE', KEYS[5], ARGV[6])
reply(KEYS[6], ARGV[5], ARGV, 7, #ARGV)
return 1
