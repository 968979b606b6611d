// One embedding by the Node SDK: `node embed.cjs FOLDER BASE_URL CLIENT_MS REQUEST_MS`, where FOLDER
// has its node_modules and 0 is none of that kind.
const { OpenAI } = require(require.resolve('openai', { paths: [process.argv[2]] }));
const [baseURL, ofClient, ofRequest] = process.argv.slice(3);
const own = (ms) => (Number(ms) ? { timeout: Number(ms) } : {});
const sdk = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0, ...own(ofClient) });
const body = { model: 'm', input: 'a', encoding_format: 'float' };
sdk.embeddings.create(body, own(ofRequest)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
