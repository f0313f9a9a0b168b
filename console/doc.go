// Package console is the gateway's pages for people: approvals, sessions, terminals,
// sandboxes, nodes and keys, where one would rather look than type.
//
// The sources are in src, in JavaScript. What browsers get is bundled from them into
// dist by make console, and is in git, so that building the program needs no npm. The
// pages call the HTTP API and nothing else, by the cookie and the token of a sign-in;
// package gateway says who may do what. Nothing here decides anything.
package console
