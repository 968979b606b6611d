#!lua flags=allow-oom
-- Make the groups of a model's queues where they are missing: a worker must reach what waits there
-- when memory is full, too. KEYS: the queues. ARGV: group; seconds to keep a queue.
-- They begin at 0: what was submitted before the first worker came is delivered too.
for _, queue in ipairs(KEYS) do
  local made = redis.pcall('XGROUP', 'CREATE', queue, ARGV[1], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, '^BUSYGROUP') then
    return made
  end
  redis.call('EXPIRE', queue, ARGV[2])
end
return 1
