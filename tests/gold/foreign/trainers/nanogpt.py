# a small GPT on one card
import time

out_dir = 'out-stories'
eval_interval = 250  # often: it overfits
eval_iters = 200
log_interval = 10
always_save_checkpoint = False

wandb_log = False
wandb_run_name = 'stories-' + str(time.time())

dataset = 'stories'
gradient_accumulation_steps = 5 * 8
batch_size = 12
block_size = 1024

n_layer = 12
n_head = 12
n_embd = 768
dropout = 0.1
bias = False

learning_rate = 6e-4
max_iters = 600_000
decay_lr = True
lr_decay_iters = 600000
min_lr = 6e-5
beta2 = 0.99
warmup_iters = 100
init_from = 'scratch'
device = 'cuda'
dtype = 'bfloat16'
compile = True
