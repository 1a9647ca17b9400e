package main

import (
	"math/bits"

	"github.com/geseq/orderbook"
	decimal "github.com/geseq/udecimal"
)

// Red-black trees of levels, orders in linked lists found by a hash map; prices are decimals.
type engine struct {
	books  []*orderbook.OrderBook
	tokens []uint64
}

func newEngine(flow *flow, trades *trades) *engine {
	result := &engine{tokens: make([]uint64, flow.symbols)}
	for symbol := range flow.symbols {
		// As many orders as ever live at a time, for the pool that all books share is that of the last
		// one, and it goes round: a larger one would only leave the cache. A book's index grows by itself.
		room := uint64(1 << 10)
		if symbol+1 == flow.symbols {
			room = 1 << 18
			if flow.prefill > 0 {
				room = 1 << bits.Len(uint(flow.prefill*5/4))
			}
		}
		result.books = append(result.books, orderbook.NewOrderBook(trades,
			orderbook.WithOrderPoolSize(room), orderbook.WithOrderQueuePoolSize(1<<14)))
	}
	return result
}

func (e *engine) apply(operation *operation) {
	switch operation.kind {
	case kindNew:
		e.add(operation, orderbook.None)
	case kindCancel:
		e.cancel(operation)
	case kindReplace:
		e.cancel(operation)
		e.add(operation, orderbook.None)
	case kindNewImmediateOrCancel:
		e.add(operation, orderbook.IoC)
	}
}

func (e *engine) add(operation *operation, flag orderbook.FlagType) {
	side := orderbook.Sell
	if operation.buys {
		side = orderbook.Buy
	}
	e.books[operation.symbol].AddOrder(e.token(operation), operation.orderID, orderbook.Limit, side,
		operation.quantity, operation.price, decimal.Zero, flag)
}

func (e *engine) cancel(operation *operation) {
	e.books[operation.symbol].CancelOrder(e.token(operation), operation.orderID)
}

// A book wants each call to bring the number after the last one's.
func (e *engine) token(operation *operation) uint64 {
	e.tokens[operation.symbol]++
	return e.tokens[operation.symbol]
}

type trade struct {
	maker, taker    uint64
	quantity, price decimal.Decimal
}

// The trades of one turn; the hash over them is taken when the clock has stopped.
type trades struct {
	list []trade
}

func newTrades() *trades {
	return &trades{list: make([]trade, 0, 1<<20)}
}

// PutOrder is called when an order is accepted, canceled or rejected.
func (t *trades) PutOrder(orderbook.MsgType, orderbook.OrderStatus, uint64, decimal.Decimal, error) {}

// PutTrade is called for each trade.
func (t *trades) PutTrade(maker, taker uint64, _, _ orderbook.OrderStatus, quantity, price decimal.Decimal) {
	t.list = append(t.list, trade{maker, taker, quantity, price})
}

func (t *trades) quantity() uint64 {
	sum := uint64(0)
	for _, trade := range t.list {
		sum += trade.quantity.Int()
	}
	return sum
}

func (t *trades) hash() uint64 {
	hash := uint64(0)
	for _, trade := range t.list {
		word := trade.maker*0x9E3779B97F4A7C15 + trade.taker*0xC2B2AE3D27D4EB4F + trade.quantity.Int()<<32 + trade.price.Int()
		hash = (bits.RotateLeft64(hash, 5) ^ word) * 0xFF51AFD7ED558CCD
	}
	return hash
}
