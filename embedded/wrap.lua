-- The layers of a model's context. `wrap(s)` is called for every request with a snapshot `s` and
-- returns an array of layers:
--
--   { name =, stability =, side =, text =, budget = }     a text
--   { name = "log", stability = "log", side = "conversation", rows = { first, last } }
--   { name =, stability =, side = "conversation", messages = { { role =, text = }, ... } }
--
-- stability: release, model, room, epoch, log, turn, volatile; the composer sorts by it.
-- side: "system" or "conversation". budget: tokens, 0 for no limit.
--
-- A text named `wrap.lua`, equipped on a room or an agent, replaces this script; it can import
-- the same libraries.

local layers = import("layers")
local parts = import("parts")
local small = import("small")

function wrap(s)
  if s.profile == "small" then return small.wrap(s, parts.equipped(s)) end
  local list = {}
  layers.add(list, "identity", "release", "system", parts.identity(s))
  layers.add(list, "charter", "release", "system", s.prompts.charter)
  layers.add(list, "notes", "release", "system", s.prompts.state)
  layers.add(list, "memory", "release", "system", parts.memory_tools(s))
  layers.add(list, "you", "model", "system", s.agent.prompt, 2000)
  layers.add(list, "equipped", "room", "system", parts.equipped(s), 6000)
  layers.add(list, "room", "room", "system", parts.room(s), 2000)
  layers.add(list, "namespaces", "room", "system", parts.namespaces(s), 1500)
  layers.add(list, "earlier", "epoch", "conversation", parts.earlier(s))
  layers.add(list, "journal", "epoch", "conversation", parts.journal(s), 1500)
  layers.log(list, s.log)
  layers.add(list, "project", "turn", "conversation", parts.project(s), 1200)
  layers.add(list, "keys", "turn", "conversation", parts.keys(s), 800)
  layers.add(list, "state", "turn", "conversation", parts.state(s), 1500)
  layers.add(list, "answering", "volatile", "conversation", parts.answering(s), 500)
  layers.add(list, "now", "volatile", "conversation", parts.now(s))
  layers.add(list, "request", "volatile", "conversation", parts.request(s))
  return list
end
