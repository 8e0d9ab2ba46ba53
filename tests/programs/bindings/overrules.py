# overrules the defaults
batch_size = 2
gradient_accumulation_steps = 8
