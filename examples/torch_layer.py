"""A layer whose product, bias and activation are one call of tilewright: trained, compiled and exported."""

import torch

import tilewright


class Layer(torch.nn.Linear):
    """gelu(x @ weight.T + bias)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tilewright.matmul(x, self.weight.T, bias=self.bias, activation="gelu")


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(Layer(16, 64), torch.nn.Linear(64, 1)).to(device)
    x = torch.randn(256, 16, device=device)
    y = x.sin().sum(1, keepdim=True)

    layer = model[0]
    with torch.no_grad():
        plan = tilewright.plan(x, layer.weight.T, bias=layer.bias, activation="gelu")
    print("tilewright:", plan.describe().splitlines()[0])
    if plan.problem is None:
        print("Without a GPU the layer computes, trains and exports the same, and slowly: its product is NumPy's.")

    compiled = torch.compile(model, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(61):
        optimizer.zero_grad()
        loss = (compiled(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")

    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    print("exported:", [str(node.target) for node in program.graph.nodes if "tilewright" in str(node.target)])

    jacobian = torch.vmap(torch.func.jacrev(model))(x[:3])
    print("the Jacobian of three rows:", tuple(jacobian.shape))


if __name__ == "__main__":
    main()
