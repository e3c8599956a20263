-- Runs a tool or a command that somebody wrote: `source`, under `name`, with what it is given.
--
-- The script sees args, caller, room, here and now (and words, if it is a command) as globals of
-- its own, beside the libraries. What it returns is its result; if it returns nothing but makes a
-- function run, what run(args) returns is. Nothing it does is left for the next run.

local source_load, floor = load, math.floor

-- SplitMix64: every run has a seed of its own, which the sandbox's generator has not.
local function generator(state)
  local function bits()
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    return z ~ (z >> 31)
  end
  return function(low, high)
    local part = (bits() >> 11) * 2.0 ^ -53
    if low == nil then return part end
    if high == nil then low, high = 1, low end
    low, high = floor(low), floor(high)
    if low > high then error("random: the interval is empty", 2) end
    return low + floor(part * (high - low + 1))
  end
end

local function copied(from)
  local copy = {}
  for key, value in pairs(from) do copy[key] = value end
  return copy
end

local function environment(call)
  local env = copied(_G)
  env._G, env.import = env, nil
  env.math = copied(math)
  env.math.random = generator(call.seed)
  env.load = function(chunk, name, mode, given)
    return source_load(chunk, name, mode, given == nil and env or given)
  end
  for key, value in pairs(call.given) do env[key] = value end
  return env
end

local function run(call)
  local env = environment(call)
  local chunk, problem = source_load(call.source, call.name, "t", env)
  if not chunk then error(problem, 0) end
  local result = chunk()
  if result == nil and type(rawget(env, "run")) == "function" then result = env.run(env.args) end
  return result
end

-- Whether a script can be read at all; nothing of it runs.
local function check(call)
  local chunk, problem = source_load(call.source, call.name, "t", {})
  if not chunk then error(problem, 0) end
end

return { run = run, check = check }
