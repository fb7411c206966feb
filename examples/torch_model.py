"""A whole model by tilewright, with one line more: PyTorch's own layers, trained, then a report of what ran where."""

import torch

import tilewright.torch


def main() -> None:
    tilewright.torch.enable()  # the line

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        print("Products run on tilewright's kernels where tables expect them to be at least as fast as PyTorch's.")
    else:
        print("Without a GPU enable() changes nothing: PyTorch computes everything on the CPU. The report is empty.")
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    x = torch.randn(8, 64, 256, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(5):
        optimizer.zero_grad()
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}")

    print(tilewright.torch.report())
    tilewright.torch.disable()


if __name__ == "__main__":
    main()
