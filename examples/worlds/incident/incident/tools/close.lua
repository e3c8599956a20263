-- Closes the incident with a summary; the hourly reminder ends.
-- @param summary string What happened, why, and what follows
host.call("sshwarma:note", {kind = "milestone", text = "Closed: " .. args.summary})
return "Closed by " .. caller.name .. ": " .. args.summary
