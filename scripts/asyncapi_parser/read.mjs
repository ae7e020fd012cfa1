// Reads an AsyncAPI document with the official parser, and validates the examples, which the parser
// leaves alone. Errors and warnings fail; hints do not.
import { readFileSync } from "node:fs";
import parser from "@asyncapi/parser";
import Ajv from "ajv";
import addFormats from "ajv-formats";

const { document, diagnostics } = await new parser.Parser().parse(
  readFileSync(process.argv[2], "utf8"),
);
const WARNING = 1;
const wrong = diagnostics
  .filter(({ severity }) => severity <= WARNING)
  .map(({ code, message, path }) => `${code}: ${message} (${path.join("/")})`);

const ajv = new Ajv({ strict: false });
addFormats(ajv);
for (const message of document?.components().messages().all() ?? []) {
  const fits = ajv.compile(message.payload().json());
  for (const example of message.examples().all()) {
    if (!fits(example.payload())) {
      wrong.push(`example of ${message.id()}: ${ajv.errorsText(fits.errors)}`);
    }
  }
}
for (const problem of wrong) {
  console.error(problem);
}
if (wrong.length > 0 || !document) {
  process.exit(1);
}
const counts = ["channels", "operations", "messages"].map(
  (name) => `${document[name]().all().length} ${name}`,
);
console.log(counts.join(", "));
