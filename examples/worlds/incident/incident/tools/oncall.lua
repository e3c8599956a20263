-- Says who is on call, or hands over.
-- @param to string? Who is on call from now on
local state = host.state("room")
if args.to then
  state.set("oncall", args.to)
  return args.to .. " is on call now."
end
return (state.get("oncall") or "Nobody") .. " is on call."
