// Package broker is the state machine: queues, partitions, consumer groups,
// cursors, leases, retry budgets and dead letters. Its state is the fold of
// the log; every change is planned under one lock, written as an event that
// holds results, applied by the function that replay calls too, and answered
// when the log says it is durable.
//
//	decode -> plan -> event -> append -> apply -> commit -> answer
//
// Nothing in here knows HTTP. Time comes from Config.Now.
package broker
