-- wrk's script for scripts/bench. It sends signed deliveries, each with an id of its own, and counts every answer.
-- The arguments are: the file with the request up to the id; the file with the rest of the request; the status that
-- is expected; "fresh" or "same" ids; a text that distinguishes the ids of this run from those of others; and the
-- mean pause in ms before a connection's next request, which is 0, or makes a steady rate well below the highest.
local threads = {}
local number = 0

function setup(thread)
   number = number + 1
   thread:set("number", number)
   table.insert(threads, thread)
end

local function read(path)
   local file = assert(io.open(path, "rb"))
   local text = file:read("*a")
   file:close()
   return text
end

function init(args)
   head = read(args[1])
   tail = read(args[2])
   expected = tonumber(args[3])
   fresh = args[4] == "fresh"
   run = args[5]
   pause = tonumber(args[6])
   count = 0
   wrong = 0
   answers = 0
end

function request()
   if fresh then count = count + 1 end
   return head .. run .. "-" .. number .. "-" .. count .. tail
end

-- The pauses vary, so that the connections do not send in step.
function delay()
   if pause == 0 then return 0 end
   return math.random(math.floor(pause / 2), math.floor(pause * 1.5))
end

function response(status)
   answers = answers + 1
   if status ~= expected then wrong = wrong + 1 end
end

function done(summary, latency)
   local answers, wrong = 0, 0
   for _, thread in ipairs(threads) do
      answers = answers + thread:get("answers")
      wrong = wrong + thread:get("wrong")
   end
   local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
   io.write(string.format("RESULT %d %d %d %d %d %d\n", answers, wrong, errors,
      summary.duration, latency:percentile(50), latency:percentile(99)))
end
