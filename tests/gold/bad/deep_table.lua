local t = {}
for i = 1, 20 do
    t = { model = t }
end
return t
