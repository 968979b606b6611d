#!lua flags=allow-oom
-- Give up a job: answer it, and keep what is known of it. Returns 0 where somebody answered.
-- KEYS, 6: the reply stream; 7: the dead letters.
-- ARGV: lane; group; entry id; tokens; job id; dedup ms; answer; most letters; their seconds; fields.
if not remove(tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]) then
  return 0
end
redis.call('PEXPIRE', KEYS[5], ARGV[6])
redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[8], '*', unpack(ARGV, 10))
redis.call('EXPIRE', KEYS[7], ARGV[9])
reply(KEYS[6], ARGV[5], ARGV, 7, 7)
return 1
