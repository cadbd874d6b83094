// Nothing in a page needs this script: it only makes pages follow the cluster.
"use strict";
