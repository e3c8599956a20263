-- Closes the incident with a summary; the hourly reminder ends.
-- @param summary string What happened, why, and what follows
host.state("room").set("closed", true)
return "Closed by " .. caller.name .. ": " .. args.summary
