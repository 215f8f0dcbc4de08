"""The model of engine_bench.c in plain PyTorch, and both measured in turn on one core.

    taskset -c 1 python bench/engine_bench.py build/bench/engine_bench [--rounds 3] [--tokens 2048]

Each round runs the C program, PyTorch eager and torch.compile, a few iterations each; medians over all rounds are
printed, in seconds per iteration (forward, backward, AdamW), GFLOP/s by the formula in engine_bench.c, and as parts of
the matrix product rate that the C program measures.
"""

import argparse
import math
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, HEADS, LAYERS, INNER, VOCAB = 512, 8, 8, 1408, 256


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_input, self.norm_middle = nn.RMSNorm(HIDDEN, eps=1e-5), nn.RMSNorm(HIDDEN, eps=1e-5)
        self.qkv, self.output = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate_up, self.down = nn.Linear(HIDDEN, 2 * INNER, bias=False), nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x, cosine, sine):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.norm_input(x)).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, tokens, HIDDEN))
        gate, up = self.gate_up(self.norm_middle(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(HIDDEN, eps=1e-5), nn.Linear(HIDDEN, VOCAB, bias=False)
        half = HIDDEN // HEADS // 2
        angles = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, target):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


def model_flops(tokens):
    weights = LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER) + VOCAB * HIDDEN
    return 6 * weights * tokens + LAYERS * 3 * 2 * tokens**2 * HIDDEN


class Trainer:
    def __init__(self, tokens, compiled):
        torch.manual_seed(1)
        model = Model(tokens)
        row = torch.randint(VOCAB, (1, tokens + 1))
        self.input, self.target = row[:, :-1].contiguous(), row[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
        self.model = torch.compile(model) if compiled else model

    def iteration(self):
        start = time.perf_counter()
        loss = self.model(self.input, self.target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
        assert math.isfinite(loss.item())
        return seconds


def run_c(program, tokens, iterations):
    output = subprocess.run([program, str(iterations), str(tokens)], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in output.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=2, help="of each program in each round")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    torch.set_num_threads(1)

    trainers = {"PyTorch eager": Trainer(options.tokens, False)}
    if not options.no_compile:
        trainers["torch.compile"] = Trainer(options.tokens, True)
    for trainer in trainers.values():
        trainer.iteration()  # warms up, compiles
    seconds = {name: [] for name in ("dcpar", *trainers)}
    rates = []
    for _ in range(options.rounds):
        c = run_c(options.program, options.tokens, options.iterations)
        seconds["dcpar"].append(float(c["iteration_s"]))
        rates.append(float(c["product_gflops"]))
        for name, trainer in trainers.items():
            seconds[name] += [trainer.iteration() for _ in range(options.iterations)]

    flops, rate = model_flops(options.tokens), statistics.median(rates)
    print(f"matrix product alone {rate:.1f} GFLOP/s; model {flops * 1e-9:.1f} GFLOP an iteration; medians of "
          f"{options.rounds} rounds")
    print(f"{'':16}{'seconds':>9}{'GFLOP/s':>10}{'of product':>12}{'dcpar is':>12}")
    ours = statistics.median(seconds["dcpar"])
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:16}{median:9.3f}{flops / median * 1e-9:10.1f}{flops / median * 1e-9 / rate:12.3f}"
              f"{median / ours:11.2f}x")


if __name__ == "__main__":
    main()
