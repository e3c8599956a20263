-- Builds a list of layers. `local layers = import("layers")`.

local M = {}

-- Adds a text as a layer, unless it is empty. `budget` is in tokens (default 0, no limit).
function M.add(list, name, stability, side, text, budget)
  if text and text ~= "" then
    list[#list + 1] =
      { name = name, stability = stability, side = side, text = text, budget = budget or 0 }
  end
end

-- Adds messages of the conversation, each with a role ("user" or "assistant") and a text.
function M.messages(list, name, stability, messages)
  if #messages > 0 then
    list[#list + 1] = {
      name = name, stability = stability, side = "conversation", messages = messages,
    }
  end
end

-- Adds the rows of the room's log that are in the window.
function M.log(list, log)
  if log.count > 0 then
    list[#list + 1] = {
      name = "log", stability = "log", side = "conversation", rows = { log.first, log.last },
    }
  end
end

-- Indents every line of a text, so that none can look like a heading or another speaker. Whatever
-- some reader may take for the end of a line counts as one.
function M.indent(text)
  local lines = text:gsub("\r\n", "\n"):gsub("[\r\v\f\28\29\30]", "\n")
    :gsub("\xC2\x85", "\n"):gsub("\xE2\x80[\xA8\xA9]", "\n")
  return "  " .. (lines:gsub("\n", "\n  "))
end

-- A heading in square brackets, and a text below it.
function M.block(heading, text)
  return "[" .. heading .. "]\n" .. M.indent(text)
end

-- A text on one line.
function M.one_line(text)
  return (M.indent(text):gsub("%s+", " "):gsub("^ ", ""))
end

-- Formats each item as a line.
function M.lines(items, line, between)
  local out = {}
  for i = 1, #items do out[i] = line(items[i]) end
  return table.concat(out, between or "\n")
end

return M
