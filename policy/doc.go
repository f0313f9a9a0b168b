// Package policy decides whether a command may run on a machine that has no
// other boundary, and says why.
//
// [Decide] is one pure function over a command, the rules and a [View] of the
// file system; the guard before commands, the prompt for an approval,
// corral explain and the record of what happened all call it, so that they
// cannot disagree.
//
// # What it looks at
//
// The command is parsed as a shell would read it. Each simple command in it is
// a [Segment], also those in pipelines, lists, substitutions, functions and
// the text that another shell is given (sh -c). Wrappers such as env, nice or
// timeout are looked through to the program that they run, or refused; a
// program's name is looked up on the PATH of the command, and it is the file
// found that rules speak of. What cannot be told without running the command
// (a name from a variable, a program that is made of a substitution) is never
// allowed by a rule.
//
// # How it decides
//
// Deny rules beat ask rules, which beat allow rules, wherever they come from.
// Without a rule, [SecurityFull] allows, and [SecurityAllowlist] allows only
// what is a pipeline of allowed programs and safe bins: chaining,
// redirections and substitutions are not, unless [Rules] say otherwise.
// What is then not allowed is asked about, or denied, as [Ask] says.
package policy
