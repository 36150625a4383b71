local other = use "use/wrong_field"
local n = 0

return n
