local ranks = 3
if 64 % ranks ~= 0 then
    error("64 sequences do not divide over " .. ranks .. " ranks")
end
