"""The oracle's seeds: the numbers that torch.manual_seed gives, and no stack trace kept for GPUs
that are not there, which took a third of an oracle's time."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

from command import check, done
from oracle_reference import seed_all

torch.manual_seed(7)
expected, kept = torch.randn(5), torch.cuda._lazy_seed_tracker.manual_seed_all_cb
seed_all(7)
check("the numbers are those of torch.manual_seed", torch.equal(torch.randn(5), expected))
check("nothing is kept for a GPU that may come", torch.cuda._lazy_seed_tracker.manual_seed_all_cb is kept)
done()
