import os

# Several tests run at the same time. Threads of a matrix product that wait for each other on a busy
# machine make it many times slower. NumPy reads the variable when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
