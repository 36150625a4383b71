for i = 1, 200 do
    use "models/tiny_gpt2"
end
