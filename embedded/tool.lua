-- Runs a Lua tool or command: `source`, under `name`, with its arguments and surroundings.
--
-- The script sees args, caller, room, here and now (and words, if it is a command) as globals of
-- its own, besides the libraries. Its return value is its result; if it returns nothing but defines
-- a function run, the result is that of run(args). No state is kept for the next run.

local source_load, floor = load, math.floor

-- SplitMix64: every run has its own seed; the sandbox's generator cannot be seeded.
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
  local result, failure = chunk()
  if result == nil and failure == nil and type(rawget(env, "run")) == "function" then
    return env.run(env.args)
  end
  return result, failure
end

-- Raises if a script is not valid Lua; does not run it.
local function check(call)
  local chunk, problem = source_load(call.source, call.name, "t", {})
  if not chunk then error(problem, 0) end
end

return { run = run, check = check }
