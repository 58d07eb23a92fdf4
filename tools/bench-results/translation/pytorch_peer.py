"""The translation model of `orthornn train translate` in PyTorch: seconds of one epoch, to compare with.

Usage: pytorch_peer.py spa-eng.zip [--cells lstm,cwy] [--hidden 1024] [--reflections 128] [--precision tf32] [--steps 0]

Embeddings, encoder, decoder from the encoder's last state, attention (Luong's "general"), tanh(W [context; state]), dropout, softmax; Adam,
gradients clipped at norm 1, products in tf32, or in bf16 by autocast. Batches of 128 pairs of similar length lie on the GPU before the clock starts. The LSTM is
nn.LSTM (cuDNN). The recurrence of CWY, h <- tanh(h - U S^-1 U^T h + W x), is compiled by torch.compile, eight steps a call: a call of the
compiler for each length would take minutes, and a call a step is slower.
"""
import argparse, json, random, re, time, zipfile
from collections import Counter
import torch, torch.nn as nn, torch.nn.functional as F

UNROLLED = 8  # steps a compiled call
parser = argparse.ArgumentParser()
parser.add_argument('zip')
parser.add_argument('--cells', default='lstm,cwy')
parser.add_argument('--hidden', type=int, default=1024)
parser.add_argument('--reflections', type=int, default=128)
parser.add_argument('--embedding', type=int, default=128)
parser.add_argument('--vocabulary', type=int, default=30000)
parser.add_argument('--precision', default='tf32', choices=['tf32', 'bf16'])
parser.add_argument('--steps', type=int, default=0, help='at most; 0 for a whole epoch')
options = parser.parse_args()
device = 'cuda'
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.manual_seed(1)
random.seed(1)


def read_batches():
    """Token ids [T, B] on the GPU: 0 is padding, 1 begins, 2 ends, 3 is unknown. The first 90 % of the pairs in random order."""
    archive = zipfile.ZipFile(options.zip)
    name = next(n for n in archive.namelist() if n.endswith('spa.txt'))
    pairs = [line.split('\t')[:2] for line in archive.read(name).decode('utf-8').splitlines() if '\t' in line]
    pairs = [[re.findall(r'\w+|[^\w\s]', text.lower()) for text in pair] for pair in pairs]
    random.shuffle(pairs)
    pairs = pairs[:int(.9 * len(pairs))]
    global vocabulary
    sides, vocabulary = [], []
    for side in (0, 1):
        words = Counter(w for pair in pairs for w in pair[side]).most_common(options.vocabulary - 4)
        ids = {w: i + 4 for i, (w, _) in enumerate(words)}
        vocabulary.append(len(ids) + 4)
        sides.append([[ids.get(w, 3) for w in pair[side]] for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda i: (len(sides[0][i]), len(sides[1][i])))
    batches = []
    for first in range(0, len(order), 128):
        some = order[first:first + 128]
        pad = lambda rows: nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows]).to(device)
        batches.append((pad([sides[0][i] + [2] for i in some]), pad([[1] + sides[1][i] for i in some]), pad([sides[1][i] + [2] for i in some])))
    random.shuffle(batches)
    return batches


def eight_steps(h, w_x, u_s, u_t):
    states = []
    for t in range(UNROLLED):
        h = torch.tanh(torch.addmm(h + w_x[t], h @ u_s, u_t, alpha=-1))
        states.append(h)
    return torch.stack(states)


compiled_steps = torch.compile(eight_steps, dynamic=False)


class Cwy(nn.Module):
    def __init__(self, inputs, size, reflections):
        super().__init__()
        self.v = nn.Parameter(torch.randn(size, reflections))
        self.input = nn.Linear(inputs, size)

    def forward(self, x, h):
        length, batch = x.shape[:2]
        u = self.v / self.v.norm(dim=0)
        s = torch.triu(u.T @ u, 1) + .5 * torch.eye(u.shape[1], device=device)
        u_s = torch.linalg.solve_triangular(s, u, upper=True, left=False)
        w_x = self.input(x)
        w_x = F.pad(w_x, (0, 0, 0, 0, 0, -length % UNROLLED))
        states = []
        h = torch.zeros(batch, u.shape[0], device=device) if h is None else h
        for t in range(0, length, UNROLLED):
            states.append(compiled_steps(h, w_x[t:t + UNROLLED], u_s, u.T))
            h = states[-1][-1]
        return torch.cat(states)[:length]


class Translator(nn.Module):
    def __init__(self, cell):
        super().__init__()
        n, k = options.hidden, options.embedding
        self.cell = cell
        self.source, self.target = nn.Embedding(vocabulary[0], k), nn.Embedding(vocabulary[1], k)
        make = (lambda: nn.LSTM(k, n)) if cell == 'lstm' else (lambda: Cwy(k, n, options.reflections))
        self.encoder, self.decoder = make(), make()
        self.query, self.vector, self.output = nn.Linear(n, n), nn.Linear(2 * n, n), nn.Linear(n, vocabulary[1])

    def forward(self, source, begun, answer):
        if self.cell == 'lstm':
            keys, state = self.encoder(self.source(source))
            states, _ = self.decoder(self.target(begun), state)
        else:
            keys = self.encoder(self.source(source), None)
            last = (source != 0).sum(0) - 1
            states = self.decoder(self.target(begun), keys[last, torch.arange(keys.shape[1], device=device)])
        scores = torch.einsum('tbn,sbn->bts', self.query(states), keys) / keys.shape[2] ** .5
        scores = scores.masked_fill((source == 0).T[:, None], float('-inf'))
        context = torch.einsum('bts,sbn->tbn', scores.softmax(2), keys)
        y = F.dropout(torch.tanh(self.vector(torch.cat([context, states], 2))), .3, self.training)
        return F.cross_entropy(self.output(y).flatten(0, 1), answer.flatten(), ignore_index=0)


def epoch(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=options.precision == 'bf16'):
            loss = model(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, loss.item()


batches = read_batches()
if options.steps: batches = batches[:options.steps]
steps, tokens = len(batches), sum(int((b[2] != 0).sum()) for b in batches)
print(f'{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: {steps} batches, {tokens} target tokens, words {vocabulary}', flush=True)
for cell in options.cells.split(','):
    model = Translator(cell).to(device)
    epoch(model, batches[:40])  # compiles, and finds cuDNN's algorithms
    # The last batch is smaller, a shape of its own.
    epoch(model, [b for b in batches if b[0].shape[1] != 128][:1])
    torch.cuda.reset_peak_memory_stats()
    seconds, loss = epoch(model, batches)
    print(json.dumps({'cell': cell, 'precision': options.precision, 'seconds': round(seconds, 2), 'steps': steps, 'loss': round(loss, 3),
                      'parameters': sum(p.numel() for p in model.parameters()),
                      'memory_gib': round(torch.cuda.max_memory_allocated() / 2 ** 30, 2)}), flush=True)
