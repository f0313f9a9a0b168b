// The charts' library, in a file of its own that is loaded for charts alone.
export { default } from 'uplot';
