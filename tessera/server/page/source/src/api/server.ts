// The server's routes beside chat: properties, models, slots, tokenizing, streams. Types name only the fields in use.
import { getJson, postJson, request, ServerError } from './http';

export interface Props {
  model_path?: string;
  default_generation_settings?: { params?: Record<string, unknown>; n_ctx?: number };
  total_slots?: number;
  model_alias?: string;
  build_info?: string;
  role?: string; // "router": many models, this answer is of none of them
}

export interface ModelStatus {
  value: string; // unloaded, loading, loaded, sleeping
  progress?: number; // of loading, 0 to 1
  failed?: boolean; // the last attempt to load it
  error?: string;
}

export interface Model {
  id: string;
  status?: ModelStatus; // of a server with several models
  meta?: { n_ctx?: number; n_ctx_train?: number; n_params?: number; size?: number; ftype?: string } | null;
}

export interface Slot {
  id: number;
  is_processing: boolean;
  state?: string;
}

const query = (values: Record<string, string | number | undefined>) => {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
  return entries.length ? '?' + new URLSearchParams(entries.map(([name, value]) => [name, String(value)])) : '';
};

export const getProps = (model?: string) =>
  getJson<Props>(`props${query({ model, autoload: model ? 'false' : undefined })}`);
/** With `isReread` the server looks into its folder of models again. */
export const getModels = async (isReread = false) =>
  (await getJson<{ data: Model[] }>(`models${query({ reload: isReread ? 1 : undefined })}`)).data;
/** A stream of events, one for each change of a model's status. */
export const followModels = (signal: AbortSignal) => request('models/sse', { signal, quiet: true });
export const loadModel = (model: string) => postJson('models/load', { model });
export const unloadModel = (model: string) => postJson('models/unload', { model });
export const getSlots = (model?: string) => getJson<Slot[]>(`slots${query({ model })}`);
export const getHealth = () => getJson<{ status: string }>('health', { quiet: true });
export const getPageVersion = () => getJson<{ version: string }>('_app/version.json', { quiet: true });

export async function countTokens(content: string, model: string | undefined, signal: AbortSignal): Promise<number> {
  const { tokens } = await postJson<{ tokens: unknown[] }>('tokenize', { content, model }, { signal });
  return tokens.length;
}

export const endReasoning = (completion: string, model?: string) =>
  postJson<{ success: boolean }>('v1/chat/completions/control', { id: completion, action: 'reasoning_end', model });

/** Whether the server has a stream, running or ended. A server without such streams has none. */
export async function hasStream(id: string, signal: AbortSignal): Promise<boolean> {
  const found = await postJson<{ conversation_id: string }[]>(
    'v1/streams/lookup',
    { conversation_ids: [id] },
    { signal },
  ).catch((error: unknown) => {
    if (error instanceof ServerError && error.status === 404) return [];
    throw error;
  });
  return found.some(({ conversation_id }) => conversation_id === id);
}

export const followStream = (id: string, from: number, signal: AbortSignal) =>
  request(`v1/stream${query({ conv_id: id, from: from || '0' })}`, { signal });

/** Also ends the computing: a stream goes on when its reader has left. */
export const stopStream = (id: string) =>
  request(`v1/stream${query({ conv_id: id })}`, { method: 'DELETE', keepalive: true });
