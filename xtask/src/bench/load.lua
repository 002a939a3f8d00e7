-- The requests of one endpoint, or the mix a user makes, for wrk.
--
-- Arguments: endpoint, seed, number of posts, a file with one token a line, the ids of the
-- newest posts (with commas), and whether to follow the feed as it changes (yes, no).

local requests = {}
local tokens = {}
local newest = {}
local posts
local chosen
local count = 0

-- What one user does in one turn; the mix follows from it.
local PER_TURN = { feed = 1, post = 1, like = 0.15, create = 0.02 }

local function get(path)
   return "GET " .. path .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"
end

local function token()
   return tokens[math.random(#tokens)]
end

local function like(post)
   return "POST /posts/" .. post .. "/like HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
      .. "Authorization: Bearer " .. token() .. "\r\n\r\n"
end

function requests.health() return get("/health") end
function requests.feed() return get("/feed") end
function requests.post() return get("/posts/" .. math.random(posts)) end
function requests.like() return like(math.random(posts)) end

function requests.create()
   count = count + 1
   local body = '{"body":"A note by user ' .. math.random(20000) .. " at " .. os.time()
      .. ", number " .. count .. '"}'
   return "POST /posts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      .. "Authorization: Bearer " .. token() .. "\r\nContent-Length: " .. #body .. "\r\n\r\n"
      .. body
end

function requests.mix()
   local draw = math.random() * (PER_TURN.feed + PER_TURN.post + PER_TURN.like + PER_TURN.create)
   if draw < PER_TURN.feed then return requests.feed() end
   draw = draw - PER_TURN.feed
   if draw < PER_TURN.post then return get("/posts/" .. newest[math.random(#newest)]) end
   draw = draw - PER_TURN.post
   if draw < PER_TURN.like then return like(newest[math.random(#newest)]) end
   return requests.create()
end

-- Users open what the feed shows now, not what it showed when the run began.
local feeds = 0
local function follow(_, _, body)
   if body:sub(1, 10) ~= '{"posts":[' then return end
   feeds = feeds + 1
   if feeds % 32 ~= 0 then return end
   local ids = {}
   for id in body:gmatch('{"id":(%d+),"body":') do ids[#ids + 1] = id end
   if #ids > 0 then newest = ids end
end

function init(args)
   chosen = requests[args[1]]
   math.randomseed(tonumber(args[2]))
   posts = tonumber(args[3])
   for line in io.lines(args[4]) do tokens[#tokens + 1] = line end
   for id in args[5]:gmatch("%d+") do newest[#newest + 1] = id end
   if args[1] == "mix" and args[6] == "yes" then response = follow end
end

function request()
   return chosen()
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,'
      .. '"failed_statuses":%d,"socket_errors":%d}\n',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
