// The chat page of the server in Debian's chromium: an answer arrives, is stopped and made anew; a reload in the middle
// of an answer; code in an answer. The browser may log no error in any of them.
import { chromium } from "playwright-core";
import { address, assert, runCases, test } from "./support.js";

const kWaitMs = 120_000; // generous: the machine may be busy
const kHostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> [a](javascript:window.hacked=1)`;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ reducedMotion: "reduce" });
context.setDefaultTimeout(kWaitMs);
const page = await context.newPage();
const problems = [];
page.on("pageerror", (error) => problems.push(error.stack));
page.on("console", (line) => {
  if (["error", "warning"].includes(line.type())) problems.push(line.text());
});
page.on("request", (request) => {
  if (!request.url().startsWith(address)) problems.push(`another host: ${request.url()}`);
});

/** Begins a conversation whose requests have these fields. */
async function begin(fields) {
  await page.goto(address);
  await page.waitForSelector("#composer-text");
  await page.keyboard.press("Alt+s");
  await page.fill("#box-extra", JSON.stringify(fields));
  await page.keyboard.press("Alt+s");
  await page.waitForSelector(".settings", { state: "detached" });
}

async function send(text) {
  await page.fill("#composer-text", text);
  await page.press("#composer-text", "Enter");
}

const answer = () => page.locator(".message.assistant").last();
const textOf = async (locator) => (await locator.locator(".markdown").innerText()).trim();
const ended = () =>
  page.waitForFunction(() => document.querySelector(".message.assistant") && !document.querySelector(".message.live"));
const hasMoreThan = (n) =>
  page.waitForFunction((least) => document.querySelector(".markdown")?.innerText.length > least, n);

async function stop() {
  await page.click('button[aria-label="Stop the answer"]');
  await page.waitForSelector("text=Stopped.");
}

/** Waits until the server computes nothing. */
async function idle() {
  for (;;) {
    const slots = await (await fetch(`${address}/slots`)).json();
    if (slots.every((slot) => !slot.is_processing)) return;
  }
}

/** The text of the server's answer to the same request without the page. */
async function answerWithoutPage(text, fields) {
  const body = { messages: [{ role: "user", content: text }], ...fields };
  const reply = await fetch(`${address}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body) });
  return (await reply.json()).choices[0].message.content.trim();
}

const kGreedy = { temperature: 0 };
const kEndless = { temperature: 0, ignore_eos: true };
const kQuestion = "tell me a story about a fox";

test("a message is answered", async () => {
  await begin(kGreedy);
  await send(kQuestion);
  await ended();
  assert.equal(await textOf(answer()), await answerWithoutPage(kQuestion, kGreedy));
  assert.match(await answer().locator(".figures").innerText(), /\d+ tokens.*tokens\/s.*cached, \d+ computed/s);
});

test("an answer is made anew, as a branch", async () => {
  const before = await textOf(answer());
  await answer().locator("[data-action=regenerate]").click();
  await page.waitForSelector('.branch-count:has-text("2/2")');
  await ended();
  assert.equal(await textOf(answer()), before, "a greedy answer is the same again");
});

test("an answer is shown while it arrives, and stopped", async () => {
  await begin(kEndless);
  await send(kQuestion);
  await hasMoreThan(50);
  assert.equal(await page.locator(".message.live").count(), 1);
  await stop();
  await idle();
});

test("a reload in the middle of an answer loses nothing", async () => {
  await begin(kEndless);
  await send(kQuestion);
  await hasMoreThan(50);
  await page.reload();
  await page.waitForSelector(".message.live .markdown");
  const n = (await textOf(answer())).length;
  await hasMoreThan(n + 500);
  await stop();
  await idle();
  const text = await textOf(answer());
  const expected = await answerWithoutPage(kQuestion, { ...kEndless, max_tokens: 400 });
  const nCompared = Math.min(text.length, expected.length);
  assert.ok(nCompared > 500);
  assert.equal(text.slice(0, nCompared), expected.slice(0, nCompared));
});

test("code in an answer shows as text", async () => {
  await begin({ grammar: `root ::= ${JSON.stringify(kHostile)}` });
  await send("anything");
  await ended();
  assert.equal(await textOf(answer()), kHostile);
  assert.equal(await answer().locator("img, script, a").count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});

test("conversations are there after a reload", async () => {
  await page.reload();
  await page.waitForSelector(".conversation");
  assert.equal(await page.locator(".conversation").count(), 4);
});

test("the browser has logged nothing", () => assert.deepEqual(problems, []));

await runCases();
await browser.close();
