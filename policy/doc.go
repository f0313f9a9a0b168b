// Package policy decides whether a command may run on a machine that has no
// other boundary, and says why.
//
// [Decide] is a pure function of a command, the rules and a [View] of the file
// system. The guard, the prompt for an approval, corral explain and the audit
// record all call it, so they cannot disagree.
//
// # What it looks at
//
// The command is parsed as a shell would read it. Each simple command in it is
// a [Segment], also those in pipelines, lists, substitutions, functions and
// the text for another shell (sh -c). For a wrapper such as env, nice or
// timeout, the policy decides on the program that the wrapper runs, or refuses
// it. A program's name is looked up on the PATH of the command, and rules are
// compared with the file found. A program that is known only when the command
// runs (its name comes from a variable or a substitution) is never allowed by
// a rule.
//
// # How it decides
//
// Deny rules beat ask rules, and ask rules beat allow rules, wherever they come
// from. Without a rule, [SecurityFull] allows the command. [SecurityAllowlist]
// allows only pipelines of allowed programs and safe bins; it refuses chaining,
// redirections and substitutions, unless [Rules] say otherwise. [Ask] says
// whether a refused command needs an approval or is denied.
package policy
