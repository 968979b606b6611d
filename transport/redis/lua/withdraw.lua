#!lua flags=allow-oom
-- Forget a job that nobody waits for any more. Returns the backlog.
-- ARGV: lane; group; entry id, '' where its gateway does not know; tokens.
local id = ARGV[3]
if id == '' then
  id = redis.call('GET', KEYS[5])
end
remove(tonumber(ARGV[1]), ARGV[2], id or '0-0', ARGV[4])
redis.call('DEL', KEYS[5])
return backlog()
