// The models of the mock server. A model on its way waits at each step of its progress until step() is called, if
// `isHeld` is set, else it is loaded at once.
const kSteps = [0, 0.4, 0.8];

export class MockModels {
  isHeld = false;
  nReread = 0;
  all = [
    {
      id: 'tales-1b-q4',
      status: 'loaded',
      meta: { n_ctx: 8192, n_ctx_train: 32768, n_params: 1.1e9, size: 6.4e8, ftype: 'Q4_0' },
    },
    {
      id: 'coder-7b-instruct-q5-k-m',
      status: 'unloaded',
      meta: { n_ctx: 4096, n_ctx_train: 131072, n_params: 7.6e9, size: 5.4e9, ftype: 'Q5_K_M' },
    },
    {
      id: 'broken-3b',
      status: 'unloaded',
      error: "broken-3b.gguf: offset 11964: tensor 'blk.0.attn_k.weight': damaged, or truncated at byte 300000",
      meta: {},
    },
    { id: 'dreamer-350m', status: 'sleeping', meta: { n_ctx: 2048, n_params: 3.5e8, size: 2.1e8, ftype: 'Q4_K_M' } },
  ];
  readers = new Set();
  waiting = []; // of models on their way

  find(id) {
    return this.all.find((model) => model.id === id);
  }

  list(isRouter) {
    const models = isRouter ? this.all : this.all.slice(0, 1);
    return models.map((model) => ({
      id: model.id,
      object: 'model',
      created: 1,
      owned_by: 'llamacpp',
      ...(model.status === 'loaded' ? { meta: model.meta } : {}),
      ...(isRouter ? { status: { value: model.status, ...this.details(model) } } : {}),
    }));
  }

  details({ status, progress, error }) {
    if (status === 'loading') return { progress };
    return status === 'unloaded' && error ? { failed: true, error } : {};
  }

  /** The folder has a new file. */
  reread() {
    if (++this.nReread === 1) this.all.push({ id: 'newcomer-2b', status: 'unloaded', meta: { n_ctx: 1024 } });
  }

  follow(response) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    response.flushHeaders();
    this.readers.add(response);
    response.on('close', () => this.readers.delete(response));
  }

  set(model, status, progress) {
    Object.assign(model, { status, progress });
    const data = { status, progress, ...this.details(model) };
    const event = `data: ${JSON.stringify({ model: model.id, event: 'model_status', data })}\n\n`;
    for (const reader of this.readers) reader.write(event);
  }

  /** Lets the models on their way advance by a step. */
  step() {
    for (const go of this.waiting.splice(0)) go();
  }

  async arrive(model) {
    for (const progress of kSteps) {
      this.set(model, 'loading', progress);
      if (this.isHeld) await new Promise((resolve) => this.waiting.push(resolve));
    }
    this.set(model, model.id.startsWith('broken') ? 'unloaded' : 'loaded', 1);
  }

  load(id) {
    const model = this.find(id);
    if (!model) return { status: 404, message: `model '${id}' not found` };
    if (['loaded', 'loading'].includes(model.status))
      return { status: 400, message: `model '${id}' is loaded already` };
    model.arrival = this.arrive(model);
  }

  unload(id) {
    const model = this.find(id);
    if (model?.status !== 'loaded') return { status: 400, message: `model '${id}' is not loaded` };
    this.set(model, 'unloaded', 0);
  }

  /** Waits until a model is loaded for a request. Returns an error, or nothing. */
  async use(id) {
    const model = this.find(id);
    if (!model) return { status: 404, message: `model '${id}' not found` };
    if (model.status === 'loaded') return undefined;
    if (model.status !== 'loading') this.load(id);
    await model.arrival;
    if (model.status !== 'loaded') return { status: 500, message: `model '${id}' could not be loaded: ${model.error}` };
    return undefined;
  }
}
