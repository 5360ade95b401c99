// Draws the pictures of the report and makes it usable; everything it shows stands in the page's own data.

import { heat } from "./heat";
import { lanes } from "./lanes";
import { memory } from "./memory";
import { nccl } from "./nccl";
import { plots } from "./plots";
import { shell } from "./shell";
import { steps } from "./steps";

nccl();
heat();
lanes();
steps();
plots();
memory();
shell();
performance.mark("drawn");
