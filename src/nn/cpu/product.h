/* Products of small matrices that lie in cache, and a plain product of large ones made of them. */

enum { TILE_ROWS = 6, TILE_VECTORS = DCPAR_TILE_VECTORS };

/* c[rows, vectors * LANES] (+)= a b, all in registers. a(i, k) = a[i * a_row + k * a_column]: any operand may be read
 * transposed. `rows` and `vectors` are constants where this is inlined. What stands in c is added last, so that it has
 * all the time of the loop to arrive. */
ALWAYS_INLINE void multiply_tile(const int rows, const int vectors, int64_t depth, const float *a, int64_t a_row,
                                 int64_t a_column, const float *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) {
            if (add) __builtin_prefetch(c + i * ldc + j * LANES, 1);
            sum[i][j] = zeros();
        }
    for (int64_t k = 0; k < depth; ++k) {
        vector row[TILE_VECTORS];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) row[j] = load(b + k * ldb + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            const float factor = a[i * a_row + k * a_column];
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j) sum[i][j] += factor * row[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) {
            float *place = c + i * ldc + j * LANES;
            store(place, add ? load(place) + sum[i][j] : sum[i][j]);
        }
}

/* Tiles one below the other; those of a are `a_tile` floats apart. */
ALWAYS_INLINE void multiply_strip(const int vectors, int64_t m, int64_t depth, const float *a, int64_t a_tile,
                                  int64_t a_row, int64_t a_column, const float *b, int64_t ldb, float *c, int64_t ldc,
                                  bool add) {
    for (; m >= TILE_ROWS; m -= TILE_ROWS, a += a_tile, c += TILE_ROWS * ldc)
        multiply_tile(TILE_ROWS, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
    switch (m) {
    case 1:
        multiply_tile(1, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
        break;
    case 2:
        multiply_tile(2, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
        break;
    case 3:
        multiply_tile(3, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
        break;
    case 4:
        multiply_tile(4, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
        break;
    case 5:
        multiply_tile(5, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add);
        break;
    default:
        break;
    }
}

/* c[m, n] (+)= a[m, depth] b[depth, n], read as above; n is a multiple of LANES. */
static void multiply_block(int64_t m, int64_t n, int64_t depth, const float *a, int64_t a_row, int64_t a_column,
                           const float *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    const int64_t a_tile = TILE_ROWS * a_row;
    int64_t j = 0;
    for (; j + TILE_VECTORS * LANES <= n; j += TILE_VECTORS * LANES)
        multiply_strip(TILE_VECTORS, m, depth, a, a_tile, a_row, a_column, b + j, ldb, c + j, ldc, add);
    for (; j < n; j += LANES) multiply_strip(1, m, depth, a, a_tile, a_row, a_column, b + j, ldb, c + j, ldc, add);
}

/* A plain product of large matrices (after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
 * 2008): blocks of b are copied into panels as wide as a register tile, and blocks of a transposed a into tiles, so
 * that both stay in the cache and on few pages whatever the distance of their rows. Rows of an a that is not transposed
 * are read where they lie. */
enum {
    PANEL = TILE_VECTORS * LANES,
    DEPTH_BLOCK = 128,  /* a panel fits the first-level cache */
    ROW_BLOCK = 192,    /* a multiple of the tile's rows */
    COLUMN_BLOCK = 512, /* a multiple of PANEL */
    PACKED_B = DEPTH_BLOCK * COLUMN_BLOCK,
    PACKED_A = DEPTH_BLOCK * ROW_BLOCK,
    EDGE_TILE = ROW_BLOCK * PANEL,
    PRODUCT_SCRATCH = PACKED_B + PACKED_A + EDGE_TILE
};

/* One block of the product: rows from `row`, columns from `column`, depth from `first`. */
typedef struct product_block {
    int64_t row, rows, column, columns, first, depth;
} product_block;

/* to[panel, k, lane]; zeros beyond the last column. */
static void pack_b(const dcpar_product *x, const product_block *at, float *to) {
    const int64_t step_k = x->b_transposed ? 1 : x->ldb, step_j = x->b_transposed ? x->ldb : 1;
    for (int64_t column = 0; column < at->columns; column += PANEL) {
        const float *from = x->b + at->first * step_k + (at->column + column) * step_j;
        const int64_t columns = at_most(at->columns - column, PANEL);
        for (int64_t k = 0; k < at->depth; ++k, to += PANEL) {
            if (!x->b_transposed && columns == PANEL) {
                memcpy(to, from + k * step_k, PANEL * sizeof *to);
                continue;
            }
            for (int64_t j = 0; j < PANEL; ++j) to[j] = j < columns ? from[k * step_k + j * step_j] : 0.0f;
        }
    }
}

/* to[tile, k, row of the tile] of a transposed a. */
static void pack_a(const dcpar_product *x, const product_block *at, float *to) {
    for (int64_t k = 0; k < at->depth; ++k) {
        const float *from = x->a + (at->first + k) * x->lda + at->row;
        float *place = to + k * TILE_ROWS;
        int64_t rows = at->rows;
        for (; rows >= TILE_ROWS; rows -= TILE_ROWS) {
            memcpy(place, from, TILE_ROWS * sizeof *place);
            from += TILE_ROWS;
            place += at->depth * TILE_ROWS;
        }
        memcpy(place, from, (size_t)rows * sizeof *place);
    }
}

/* How a block of a is read: see multiply_strip. */
typedef struct tiles_of_a {
    const float *first;
    int64_t tile, row, column;
} tiles_of_a;

static void multiply_panels(const dcpar_product *x, const product_block *at, const tiles_of_a *a, const float *packed_b,
                            float *edge) {
    const bool add = x->add || at->first > 0;
    for (int64_t column = 0; column < at->columns; column += PANEL, packed_b += at->depth * PANEL) {
        float *c = x->c + at->row * x->ldc + at->column + column;
        if (column + PANEL <= at->columns) {
            multiply_strip(TILE_VECTORS, at->rows, at->depth, a->first, a->tile, a->row, a->column, packed_b, PANEL, c,
                           x->ldc, add);
            continue;
        }
        multiply_strip(TILE_VECTORS, at->rows, at->depth, a->first, a->tile, a->row, a->column, packed_b, PANEL, edge,
                       PANEL, false);
        for (int64_t row = 0; row < at->rows; ++row)
            for (int64_t j = 0; j < at->columns - column; ++j)
                c[row * x->ldc + j] = (add ? c[row * x->ldc + j] : 0.0f) + edge[row * PANEL + j];
    }
}

static void multiply_plain(const dcpar_product *x) {
    float *packed_b = x->scratch, *packed_a = packed_b + PACKED_B, *edge = packed_a + PACKED_A;
    product_block at;
    for (at.column = 0; at.column < x->n; at.column += COLUMN_BLOCK) {
        at.columns = at_most(x->n - at.column, COLUMN_BLOCK);
        for (at.first = 0; at.first < x->k; at.first += DEPTH_BLOCK) {
            at.depth = at_most(x->k - at.first, DEPTH_BLOCK);
            pack_b(x, &at, packed_b);
            for (at.row = 0; at.row < x->m; at.row += ROW_BLOCK) {
                at.rows = at_most(x->m - at.row, ROW_BLOCK);
                tiles_of_a a = {packed_a, at.depth * TILE_ROWS, 1, TILE_ROWS};
                if (x->a_transposed)
                    pack_a(x, &at, packed_a);
                else
                    a = (tiles_of_a){x->a + at.row * x->lda + at.first, TILE_ROWS * x->lda, x->lda, 1};
                multiply_panels(x, &at, &a, packed_b, edge);
            }
        }
    }
}

#ifdef DCPAR_HAVE_ONEDNN
/* oneDNN loses a third of its speed on products with a transposed first matrix, which gradients of weights are; the
 * plain one does not. */
static void multiply(const dcpar_product *x) {
    if (x->a_transposed && LANES >= 8)
        multiply_plain(x);
    else
        dcpar_matmul_library(x);
}
#else
static void multiply(const dcpar_product *x) { multiply_plain(x); }
#endif
