-- Texts of the default layers, from a snapshot. `local parts = import("parts")`.
--
-- A heading stands in square brackets in the first column. Texts that people and programs wrote are
-- indented below it or written on one line, so that they cannot look like a heading, a speaker or the
-- request.

local layers = import("layers")
local block, lines, one_line = layers.block, layers.lines, layers.one_line

local M = {}

function M.identity(s)
  local about = one_line(s.agent.description):gsub("%.$", "")
  if about == s.agent.name then about = "" end
  return "You are " .. s.agent.name .. (about ~= "" and ", which runs on " .. about or "") .. "."
end

-- Skills, prompts and other data equipped on the room or the model, the room's first.
function M.equipped(s)
  if #s.equipped == 0 then return nil end
  return "The people of this room equipped these texts for you. Follow them; if one contradicts the"
    .. " rules above, the rules above apply.\n\n"
    .. lines(s.equipped, function(thing) return block(thing.name, thing.content) end, "\n\n")
end

function M.room(s)
  local r = s.room
  local out = { "You are in the room " .. r.name .. "." }
  if r.description ~= "" then out[#out + 1] = block("Description of the room", r.description) end
  if r.vibe ~= "" then out[#out + 1] = "Its vibe: " .. one_line(r.vibe) end
  if #r.exits > 0 then
    out[#out + 1] = "Exits: "
      .. lines(r.exits, function(e) return e.direction .. " to " .. e.to end, ", ")
  end
  if #r.floor > 0 then
    out[#out + 1] = "In it: "
      .. lines(r.floor, function(t) return one_line(t.name) .. " (" .. t.kind .. ")" end, ", ")
  end
  out[#out + 1] = "Environment of the server: " .. one_line(s.environment) .. "."
  return table.concat(out, "\n")
end

-- What the tools of memories are for, if the model has them.
function M.memory_tools(s)
  if not s.memory.has_tools then return nil end
  if s.memory.can_edit or s.load_tool == "" then return s.prompts.memory end
  return s.prompts.memory .. " " .. s.load_tool .. " with memory loads those tools."
end

-- The note of the project, which its memory has under the key `note`.
function M.project(s)
  if s.memory.note == "" then return nil end
  return block("Note of the project", s.memory.note)
end

-- The keys that there are in memory.
function M.keys(s)
  if not s.memory.has_tools then return nil end
  local m, out = s.memory, {}
  local function keys(where, names, total)
    if total == 0 then return end
    local more = total > #names and ", and " .. (total - #names) .. " more" or ""
    out[#out + 1] = where .. ": " .. lines(names, one_line, ", ") .. more
  end
  keys("Keys in the memory of the project " .. one_line(m.project), m.project_keys, m.project_total)
  keys("Keys in session memory", m.session_keys, m.session_total)
  return #out > 0 and block("Memory", table.concat(out, "\n")) or nil
end

-- One line for each namespace that has tools and is not equipped.
function M.namespaces(s)
  if #s.namespaces == 0 then return nil end
  local how = s.load_tool ~= "" and " " .. s.load_tool .. " loads the tools of one." or ""
  return "Namespaces whose tools you do not have here." .. how .. "\n"
    .. lines(s.namespaces, function(n)
      return "- " .. n.name .. (n.description ~= "" and ": " .. one_line(n.description) or "")
    end)
end

-- What the window of the log leaves out, and how to read it.
function M.earlier(s)
  if s.earlier_turns == 0 then return nil end
  local how = s.history_tool ~= "" and ": " .. s.history_tool .. " reads them" or ""
  local turns = s.earlier_turns == 1 and "1 earlier turn is" or s.earlier_turns .. " earlier turns are"
  return "[" .. turns .. " not shown" .. how .. "]"
end

-- Entries of the journal that are older than the log shown.
function M.journal(s)
  if #s.journal == 0 then return nil end
  return block("Journal of this room, older entries", lines(s.journal, function(entry)
    return "- " .. entry.kind .. " of " .. entry.author .. ": " .. one_line(entry.text)
  end))
end

function M.state(s)
  if s.state == "" then return nil end
  return block("Your notes about this room", s.state)
end

function M.now(s)
  local models = #s.models > 0 and " Other models: " .. table.concat(s.models, ", ") .. "." or ""
  local here = #s.here > 0 and table.concat(s.here, ", ") or "nobody but you"
  return "[Here now: " .. here .. ". It is " .. s.clock .. "." .. models .. "]"
end

-- Questions that other turns are answering at this moment.
function M.answering(s)
  if #s.answering == 0 then return nil end
  return lines(s.answering, function(q)
    local by = q.by == "you" and "You are answering this now, in another turn"
      or q.by .. " is answering this now"
    return block(by .. "; it is not your request", "<" .. q.asker .. "> " .. one_line(q.text))
  end)
end

function M.request(s)
  return block("Request of " .. s.asker .. ", to be answered now", s.question)
end

return M
