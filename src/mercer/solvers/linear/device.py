"""Cholesky factorisation of a torch matrix in its own memory, on its device, in blocks.

`torch.linalg.cholesky` allocates a second n × n matrix. Here the factor takes the place of the
lower triangle, block column by block column (left-looking: Golub, Van Loan, Matrix Computations,
4th ed., §4.2.8), so nearly all work is matrix products, and the strict upper triangle keeps K
itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mercer.domains import beside, is_torch, namespace, to_host
from mercer.engines import computing_on
from mercer.errors import InvalidInput, NotPositiveDefinite, speaks, who
from mercer.memory import named_when_full, require_memory
from mercer.operators import OnDevice
from mercer.solvers.base import check_ridge
from mercer.solvers.linear.cholesky_factor import CholeskyFactor, TriangularFactor
from mercer.solvers.linear.inplace import cuts, finite, jitter_tried, jittered
from mercer.solvers.linear.krylov import lanczos_top


def _triangular(A: Any, B: Any, *, upper: bool = False, left: bool = True) -> Any:
    return namespace(A).linalg.solve_triangular(A, B, upper=upper, left=left)


def _cholesky(D: Any) -> Any:
    """Return L with L Lᵀ = D; None where D is not positive definite."""
    L, info = namespace(D).linalg.cholesky_ex(D)
    return L if int(info) == 0 and bool(L.diagonal().isfinite().all()) else None


# ---- The inverse behind a Cholesky factor on a device, in the memory of the factor ----
# `torch.cholesky_inverse` needs two more n × n matrices. Here L becomes L⁻¹ and L⁻¹ becomes
# L⁻ᵀL⁻¹, block by block, as LAPACK's trtri and lauum do it (Du Croz, Higham, Stability of methods
# for matrix inversion, IMA J. Numer. Anal. 12, 1992); all but the blocks on the diagonal is
# matrix products.


INVERSE_BLOCK = 2048  # columns of a block: long products, and a diagonal block that is little work


def invert_triangle_in_place(A: Any, block: int = INVERSE_BLOCK) -> None:
    """Replace the lower triangle L of A by L⁻¹, the strict upper one left alone; n³/3 flops."""
    n = A.shape[0]
    for j, e in reversed(cuts(n, block)):
        corner = _triangular(A[j:e, j:e], A.new_zeros(e - j, e - j).fill_diagonal_(1.0))
        # −L₂₂⁻¹ L₂₁ L₁₁⁻¹ from the last rows up: those above are still what they were.
        for i, f in reversed(cuts(n, block, e)):
            part = A[i:f, i:f].tril() @ A[i:f, j:e]
            if i > e:
                part.addmm_(A[i:f, e:i], A[e:i, j:e])
            A[i:f, j:e] = part
        for i, f in cuts(n, block, e):
            A[i:f, j:e] = -(A[i:f, j:e] @ corner)
        A[j:e, j:e] = corner.tril() + A[j:e, j:e].triu(1)


def potri_in_place(A: Any, block: int = INVERSE_BLOCK) -> None:
    """Replace the lower triangle L of A by that of (L Lᵀ)⁻¹, as above; 2n³/3 flops."""
    invert_triangle_in_place(A, block)
    for i, e in cuts(len(A), block):
        corner, below = A[i:e, i:e].tril(), A[e:, i:e]
        # Rows i of L⁻ᵀL⁻¹ need rows i and below of L⁻¹, none of which is overwritten yet.
        if i:
            left = corner.T @ A[i:e, :i]
            left.addmm_(below.T, A[e:, :i])
            A[i:e, :i] = left
        square = corner.T @ corner
        square.addmm_(below.T, below)
        A[i:e, i:e] = square.tril() + A[i:e, i:e].triu(1)


# ---- device cholesky ----


BLOCK = 4096  # columns of a block: long products, and a diagonal block that torch factors fast
STRIP = 2**14  # rows of a panel that are solved at a time
SYMMETRIC = 1e-5  # difference across the diagonal, of the largest entry, that rounding may leave


def potrf_in_place(A: Any, block: int = BLOCK) -> bool:
    """Replace the lower triangle of A by L; False where A is not positive definite.

    A is row by row in memory; its strict upper triangle is read, never written.
    """
    n = A.shape[0]
    for k, e in cuts(n, block):
        corner = A[k:e, k:e]
        D = corner.triu() + corner.triu(1).T
        if k:
            D.addmm_(A[k:e, :k], A[k:e, :k].T, alpha=-1)
        L = _cholesky(D)
        if L is None:
            return False
        corner.copy_(corner.triu(1).add_(L))
        if e == n:
            break
        # The panel below as it was is the transpose of what stands to the right of the corner.
        panel = A[e:, k:e]
        if k:
            panel.addmm_(A[e:, :k], A[k:e, :k].T, alpha=-1)
        for i, j in cuts(n, STRIP, e):
            rows = A[i:j, k:e]
            rows.copy_(_triangular(L.T, rows, upper=True, left=False))
    return True


def restore_in_place(A: Any, diagonal: Any, block: int = BLOCK) -> None:
    """Copy the strict upper triangle onto the lower one, and set the diagonal."""
    for k, e in cuts(len(A), block):
        upper = A[k:e, k:e].triu(1)
        A[k:e, k:e] = upper + upper.T
        A[e:, k:e] = A[k:e, e:].T
    A.diagonal().copy_(diagonal)


@speaks("factor", unless_spoken=True)
def factor_on_device(
    K: Any,
    ridge: Any = 0.0,
    *,
    overwrite: bool = False,
    jitter: str | float = "auto",
    knob: str = "alpha",
) -> DeviceFactor:
    """Factorise the tensor K + D = L Lᵀ on its device, in float64, as `factor` does arrays.

    In K's memory where that is allowed, if it is float64 and row by row in memory.
    """
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise InvalidInput(f"{who()}: a matrix of shape {tuple(K.shape)} is not square.")
    ridge = check_ridge(to_host(ridge), len(K))
    K = K.detach()
    a = K.double().contiguous()
    if not overwrite and a.data_ptr() == K.data_ptr():
        a = a.clone()
    diagonal = a.diagonal()
    diagonal += beside(ridge, a)
    kept = diagonal.clone()
    finite(to_host(kept))
    finite(to_host(a.sum()))
    _require_symmetric(a)
    added = (
        0.0 if potrf_in_place(a) else jittered(a, kept, jitter, potrf_in_place, restore_in_place)
    )
    if added is not None:
        return DeviceFactor(a, added, kept)
    top = lanczos_top(lambda v: to_host(a @ _device(v, a)), len(a), 30)
    low = top - lanczos_top(lambda v: top * v - to_host(a @ _device(v, a)), len(a), 30)
    raise NotPositiveDefinite(
        f"{who()}: the {len(a)} × {len(a)} matrix is not positive definite; its smallest "
        f"eigenvalue is about {low:.4g}, and {jitter_tried(jitter)}. Use a larger {knob}, or test "
        "the kernel with mercer.check_kernel.",
        smallest_eigenvalue=low,
    )


def _require_symmetric(a: Any) -> None:
    """Refuse a matrix that differs from its transpose by more than rounding, block by block."""
    n = len(a)
    largest, gap = 0.0, 0.0
    for i in range(0, n, BLOCK):
        for k in range(i, n, BLOCK):
            upper, lower = a[i : i + BLOCK, k : k + BLOCK], a[k : k + BLOCK, i : i + BLOCK]
            gap = max(gap, float((upper - lower.T).abs().max()))
            largest = max(largest, float(upper.abs().max()))
    if gap > SYMMETRIC * largest:
        raise InvalidInput(
            f"{who()}: the matrix is not symmetric; entries differ from those across the diagonal "
            f"by up to {gap:.3g}. Pass (K + K.T) / 2 if that is meant."
        )


class DeviceFactor(TriangularFactor):
    """The lower triangular L with L Lᵀ = K + D + jitter·I on a device; as `CholeskyFactor`.

    Arrays are answered with arrays, tensors with tensors on the device.
    """

    def __repr__(self) -> str:
        return f"<DeviceFactor n={self.n} jitter={self.jitter:g} on {self._a.device}>"

    def solve(self, B: Any) -> Any:
        """Return (L Lᵀ)⁻¹ B."""
        return self._answer(B, lambda C: self._up(self._down(C)))

    def half_solve(self, B: Any, overwrite: bool = False) -> Any:
        """Return L⁻¹ B."""
        return self._answer(B, self._down)

    def _down(self, C: Any) -> Any:
        return _triangular(self._a, C)

    def _up(self, C: Any) -> Any:
        return _triangular(self._a.T, C, upper=True)

    def matmul(self, B: Any) -> Any:
        """Return (K + D) B, without jitter, from the entries that the factorisation leaves."""
        return self._answer(B, self._product)

    def _product(self, C: Any) -> Any:
        a, out = self._a, self._diagonal[:, None] * C
        for i, j in cuts(self.n, BLOCK):
            corner, right = a[i:j, i:j].triu(1), a[i:j, j:]
            out[i:j] += corner @ C[i:j] + corner.T @ C[i:j] + right @ C[j:]
            out[j:] += right.T @ C[i:j]
        return out

    def logdet(self) -> float:
        """Return log det(L Lᵀ)."""
        return float(2.0 * self._a.diagonal().log().sum())

    def inverse(self) -> Any:
        """Return (L Lᵀ)⁻¹ as a tensor of its own, made in its memory."""
        out = self._a.clone()
        potri_in_place(out)
        for i, j in cuts(self.n, BLOCK):
            lower = out[i:j, i:j].tril()
            out[i:j, i:j] = lower + lower.tril(-1).T
            out[i:j, j:] = out[j:, i:j].T
        return out

    def into_inverse(self) -> Any:
        """Turn the factor into (L Lᵀ)⁻¹ where it lies, in the lower triangle; it is spent."""
        a, self._a = self._a, self._a[:0, :0]
        potri_in_place(a)
        return a

    def computing_there(self) -> AbstractContextManager:
        """Return options under which is computed on its device."""
        return computing_on(self.device)

    def on_host(self) -> CholeskyFactor:
        """Return the same factor in main memory, a copy."""
        a = np.asfortranarray(to_host(self._a))
        return CholeskyFactor(a, self.jitter, to_host(self._diagonal).copy())

    @property
    def device(self) -> Any:
        """Where it is."""
        return self._a.device

    def inverse_diagonal(self) -> np.ndarray:
        """Return diag((L Lᵀ)⁻¹), the squared column norms of L⁻¹, a strip of columns at a time.

        A strip is found by blocks of rows from the top, E_k = L_kk⁻¹(I_k − Σ_{l<k} L_kl E_l), since
        torch would copy all of the triangle to solve with it. It is an eighth of L or less.
        """
        a, n = self._a, self.n
        out = a.new_empty(n)
        step = max(1, min(BLOCK, -(-n // 8)))
        for i, j in cuts(n, step):
            E = a.new_zeros(n - i, j - i)  # columns i:j of L⁻¹, which are zero above row i
            E.diagonal().fill_(1.0)
            for k, e in cuts(n, step, i):
                part = E[k - i : e - i]
                if k > i:
                    part.addmm_(a[k:e, i:k], E[: k - i], alpha=-1)
                part.copy_(_triangular(a[k:e, k:e], part))
            out[i:j] = E.square_().sum(0)
        return to_host(out)

    def _answer(self, B: Any, work: Any) -> Any:
        B = self._checked(B if is_torch(B) else np.asarray(B, dtype=np.float64))
        C = _device(B, self._a)
        out = work(C[:, None])[:, 0] if B.ndim == 1 else work(C)
        return out if is_torch(B) else to_host(out)


def _device(V: Any, like: Any) -> Any:
    return beside(V if is_torch(V) else np.array(V, dtype=np.float64), like)


# ---- Eigenvalues and eigenvectors of a matrix on a device, found there by torch ----


def largest_pairs(A: OnDevice, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues, descending, and orthonormal vectors; about 9n³ flops."""
    n = A.shape[0]
    require_memory(
        8 * n * n * 4,  # the vectors, and the workspace of divide and conquer
        f"{who()}: the eigenvectors of the {n} × {n} matrix",
        "Use SubspaceIteration",
        A.tensor,
    )
    finite(to_host(A.tensor.sum()))
    values, vectors = namespace(A.tensor).linalg.eigh(A.tensor)
    return values[-k:].flip(0).cpu().numpy(), vectors[:, -k:].flip(1).cpu().numpy()


# ---- The low-rank preconditioner of conjugate gradients on a device, in the memory of its
# factor.


ENTRIES = 2**26  # of the strip of columns that is rewritten at a time


class DevicePreconditioner:
    """P = FᵀF + D as `NystromPreconditioner` solves with it; F stays where it is, and is spent."""

    @named_when_full("the preconditioner of conjugate gradients", "Use a smaller rank")
    def __init__(self, F: Any, ridge: float | np.ndarray):
        r, n = F.shape
        require_memory(
            8 * (4 * r * r + 2 * min(ENTRIES, r * n)),
            f"ConjugateGradients: a preconditioner of rank {r}",
            "Use a smaller rank",
            F,
        )
        self._root = F.new_tensor(1.0 / np.sqrt(ridge))
        F *= self._root
        s, V = namespace(F).linalg.eigh(F @ F.T)
        s = s.clamp_(min=0.0)
        s += r * np.finfo(np.float64).eps * (s.max() if r else 0.0)
        turned = (V / (1.0 + s).sqrt()).T
        step = max(1, ENTRIES // max(1, r))
        for i, j in cuts(n, step):
            F[:, i:j] = turned @ F[:, i:j]
        self._W = F

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹ R = D^(−½)(I − WᵀW)D^(−½) R: two products on the device."""
        root = self._root if R.ndim == 1 or self._root.ndim == 0 else self._root[:, None]
        scaled = self._W.new_tensor(np.ascontiguousarray(R)) * root
        scaled -= self._W.T @ (self._W @ scaled)
        return to_host(scaled * root)


# ---- The growing factor of a pivoted Cholesky on the device that computes rows ----


class DeviceRows:
    """`HostRows` on a device, which does the r²n flops; rows of a kernel are made there."""

    def __init__(self, A: Any, rank: int, diagonal: np.ndarray):
        import torch

        self.rows, self.diagonal = A.rows_there(), diagonal
        shape = (rank, A.shape[0])
        self.F, self.size = torch.empty(shape, dtype=torch.float64, device=A.device), 0

    def inner(self, index: np.ndarray) -> np.ndarray:
        """Return the block of FᵀF at some columns."""
        part = self.F[: self.size, index]
        return to_host(part.T @ part)

    def append(self, index: np.ndarray, L: np.ndarray) -> np.ndarray:
        """Add rows as `HostRows.append` does."""
        old = self.F[: self.size]
        G = self.F[self.size : self.size + len(index)]
        found = self.rows(index)
        G.copy_(found if is_torch(found) else G.new_tensor(found))
        G[np.arange(len(index)), index] = G.new_tensor(self.diagonal[index])  # with white noise
        if not bool(G.sum().isfinite()):
            finite(to_host(G))
        G.addmm_(old[:, index].T, old, alpha=-1)
        G.copy_(_triangular(G.new_tensor(L).tril_(), G))
        self.size += len(index)
        return to_host(G.square().sum(0))

    def table(self) -> np.ndarray:
        """Return the rows so far in main memory."""
        return np.array(to_host(self.F[: self.size]))


# ---- Two triangular factors in one m × m tensor, in blocks and in place, on its device ----


class DeviceBuffer:
    """L with L Lᵀ = K + δI below the diagonal, U with UᵀU = LᵀDL + αI above it; as `HostBuffer` of
    Falkon.

    Vectors come and go as NumPy arrays. `block` is the number of columns of a block.
    """

    def __init__(self, gram: Any, block: int = BLOCK):
        self.a = gram.detach().double().contiguous()
        self.m, self.block = len(gram), block
        self._kept = self.a.diagonal().clone()
        self._low = self._up = self._kept
        self._fresh = True

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K."""
        return to_host(self._kept)

    def factor_gram(self, jitter: float) -> bool:
        """Make L; False where K + jitter·I has none."""
        if not self._fresh:
            restore_in_place(self.a, self._kept)
        self.a.diagonal().copy_(self._kept + jitter)
        self._fresh = False
        done = potrf_in_place(self.a, self.block)
        self._low = self.a.diagonal().clone()
        return done

    def factor_inner(self, root: np.ndarray, alpha: float) -> bool:
        """Make U with UᵀU = LᵀDL + alpha·I, D = diag(root)²; False where there is none.

        Block (I, J), I ≤ J, of LᵀDL is Σ over rows r ≥ J of L_rIᵀ D_r L_rJ: it reads below the
        diagonal and is written above it.
        """
        d = beside(root, self.a) ** 2
        diagonal = self._low.new_empty(self.m)
        for i, j in self._cuts():
            own = self._corner(i, j)
            for k, e in self._cuts(i):
                right = (own if k == i else self._corner(k, e)) * d[k:e, None]
                left = own if k == i else self.a[k:e, i:j]
                product = left.T @ right
                # a panel times D a strip at a time: a copy of it all would be a third matrix
                for r, s in self._cuts(e):
                    product.addmm_(self.a[r:s, i:j].T, self.a[r:s, k:e] * d[r:s, None])
                if k == i:
                    diagonal[i:j] = product.diagonal()
                    self._write(i, j, product)
                else:
                    self.a[i:j, k:e] = product
        return self._potrf_upper(diagonal + alpha)

    def _potrf_upper(self, diagonal: Any) -> bool:
        """Replace the matrix above the diagonal by U, left-looking as `potrf_in_place`."""
        a = self.a
        self._up = diagonal.new_empty(self.m)
        for i, j in self._cuts():
            corner = a[i:j, i:j].triu(1)
            D = corner + corner.T
            D.diagonal().copy_(diagonal[i:j])
            if i:
                D.addmm_(a[:i, i:j].T, a[:i, i:j], alpha=-1)
            L = _cholesky(D)
            if L is None:
                return False
            self._up[i:j] = L.diagonal()
            self._write(i, j, L.T)
            for k, e in self._cuts(j):
                panel = a[i:j, k:e]
                if i:
                    panel.addmm_(a[:i, i:j].T, a[:i, k:e], alpha=-1)
                panel.copy_(_triangular(L, panel))
        return True

    def lower(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return L V or LᵀV."""
        v = beside(V, self.a)
        out = v.new_empty(v.shape)
        for i, j in self._cuts():
            own = self._corner(i, j)
            if transpose:
                out[i:j] = own.T @ v[i:j] + self.a[j:, i:j].T @ v[j:]
            else:
                out[i:j] = own @ v[i:j] + self.a[i:j, :i] @ v[:i]
        return to_host(out)

    def solve_lower(
        self, V: np.ndarray, transpose: bool = False, overwrite: bool = False
    ) -> np.ndarray:
        """Return L⁻¹V or L⁻ᵀV; V is on another machine, and never overwritten."""
        return self._solve(self._low, V, transpose, upper=False)

    def solve_upper(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return U⁻¹V or U⁻ᵀV."""
        return self._solve(self._up, V, transpose, upper=True)

    def _solve(self, diagonal: Any, V: np.ndarray, transpose: bool, upper: bool) -> np.ndarray:
        self.a.diagonal().copy_(diagonal)
        A = self.a.T if transpose else self.a
        return to_host(_triangular(A, beside(V, self.a), upper=upper != transpose))

    def _cuts(self, start: int = 0) -> list[tuple[int, int]]:
        return cuts(self.m, self.block, start)

    def _corner(self, i: int, j: int) -> Any:
        """Return a block of L on the diagonal."""
        return self.a[i:j, i:j].tril(-1) + self._low[i:j].diag()

    def _write(self, i: int, j: int, block: Any) -> None:
        """Write above the diagonal of a block on it; L below stays."""
        corner = self.a[i:j, i:j]
        corner.copy_(corner.tril(-1) + block.triu())
