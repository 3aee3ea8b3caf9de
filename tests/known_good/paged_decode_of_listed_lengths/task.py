import torch
import torch.nn as nn

B, H, D, PAGE, PAGES, MAXP = 3, 2, 16, 8, 12, 4


class Model(nn.Module):
    def forward(self, q, kc, vc, table, lens):
        out = []
        for b in range(q.shape[0]):
            n = int(lens[b])
            k = kc[table[b]].flatten(0, 1)[:n]
            v = vc[table[b]].flatten(0, 1)[:n]
            s = torch.einsum("hd,nhd->hn", q[b], k) * q.shape[-1] ** -0.5
            out.append(torch.einsum("hn,nhd->hd", s.softmax(-1), v))
        return torch.stack(out)


def get_inputs():
    return [torch.randn(B, H, D), torch.randn(PAGES, PAGE, H, D), torch.randn(PAGES, PAGE, H, D),
            torch.randperm(PAGES)[:B * MAXP].reshape(B, MAXP), torch.tensor([30, 9, 17])]


def get_init_inputs():
    return []
