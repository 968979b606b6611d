#!lua flags=allow-oom
-- Forget a job that nobody waits for any more. Returns the backlog.
-- ARGV: lane; group; entry id, '' where its gateway does not know; tokens.
local id = ARGV[3]
if id == '' then
  id = redis.call('GET', KEYS[5])
end
if id then
  remove(tonumber(ARGV[1]), ARGV[2], id, ARGV[4])
end
redis.call('DEL', KEYS[5])
return backlog()
