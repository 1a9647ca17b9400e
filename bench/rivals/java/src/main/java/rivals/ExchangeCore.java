package rivals;

import exchange.core2.collections.objpool.ObjectsPool;
import exchange.core2.core.common.CoreSymbolSpecification;
import exchange.core2.core.common.MatcherEventType;
import exchange.core2.core.common.MatcherTradeEvent;
import exchange.core2.core.common.OrderAction;
import exchange.core2.core.common.OrderType;
import exchange.core2.core.common.SymbolType;
import exchange.core2.core.common.cmd.CommandResultCode;
import exchange.core2.core.common.cmd.OrderCommand;
import exchange.core2.core.common.cmd.OrderCommandType;
import exchange.core2.core.common.config.LoggingConfiguration;
import exchange.core2.core.orderbook.IOrderBook;
import exchange.core2.core.orderbook.OrderBookDirectImpl;
import exchange.core2.core.orderbook.OrderBookEventsHelper;
import exchange.core2.core.orderbook.OrderBookNaiveImpl;
import java.util.HashMap;

/**
 * exchange-core's books by themselves, without its risk engine and its threads. One command is filled
 * again for each call, as its ring does; events are made as it makes them unless told otherwise.
 */
final class ExchangeCore {
    /** Its two books. */
    enum Book {
        /** Adaptive radix trees, orders linked across levels. */
        DIRECT("exchange-core 0.5.3, direct"),
        /** Sorted maps. */
        NAIVE("exchange-core 0.5.3, naive");

        final String title;

        Book(String title) {
            this.title = title;
        }
    }

    private final Flow flow;
    private final Trades trades;
    private final IOrderBook[] books;
    private final OrderCommand command = new OrderCommand();

    ExchangeCore(Book book, Flow flow, Trades trades) {
        this.flow = flow;
        this.trades = trades;
        books = new IOrderBook[flow.symbols];
        // Room for whatever a flow has live at a time; all books share one pool, as in its matching engine.
        HashMap<Integer, Integer> room = new HashMap<>();
        room.put(ObjectsPool.DIRECT_ORDER, 1 << 20);
        room.put(ObjectsPool.DIRECT_BUCKET, 1 << 18);
        room.put(ObjectsPool.ART_NODE_4, 1 << 18);
        room.put(ObjectsPool.ART_NODE_16, 1 << 17);
        room.put(ObjectsPool.ART_NODE_48, 1 << 15);
        room.put(ObjectsPool.ART_NODE_256, 1 << 15);
        ObjectsPool pool = new ObjectsPool(room);
        OrderBookEventsHelper events = new OrderBookEventsHelper(MatcherTradeEvent::new);
        for (int symbol = 0; symbol < books.length; symbol++) {
            CoreSymbolSpecification specification = CoreSymbolSpecification.builder()
                .symbolId(symbol)
                .type(SymbolType.FUTURES_CONTRACT)
                .build();
            books[symbol] = book == Book.DIRECT
                ? new OrderBookDirectImpl(specification, pool, events, LoggingConfiguration.DEFAULT)
                : new OrderBookNaiveImpl(specification, pool, events, LoggingConfiguration.DEFAULT);
        }
    }

    void apply(int index) {
        IOrderBook book = books[flow.symbol[index]];
        switch (flow.kind[index]) {
            case Flow.NEW -> place(book, index, OrderType.GTC);
            case Flow.CANCEL -> cancel(book, index);
            case Flow.REPLACE -> {
                // It can move an order to another price, but not give it another quantity.
                cancel(book, index);
                place(book, index, OrderType.GTC);
            }
            default -> place(book, index, OrderType.IOC);
        }
    }

    private void place(IOrderBook book, int index, OrderType type) {
        OrderCommand order = command;
        order.command = OrderCommandType.PLACE_ORDER;
        order.resultCode = CommandResultCode.VALID_FOR_MATCHING_ENGINE;
        order.orderId = flow.orderId[index];
        order.uid = flow.user[index];
        order.symbol = flow.symbol[index];
        order.price = flow.price[index];
        order.reserveBidPrice = flow.price[index];
        order.size = flow.quantity[index];
        order.action = flow.buys[index] ? OrderAction.BID : OrderAction.ASK;
        order.orderType = type;
        order.matcherEvent = null;
        IOrderBook.processCommand(book, order);
        for (MatcherTradeEvent event = order.matcherEvent; event != null; event = event.nextEvent) {
            if (event.eventType == MatcherEventType.TRADE) {
                trades.add(event.matchedOrderId, order.orderId, event.size, event.price);
            }
        }
    }

    private void cancel(IOrderBook book, int index) {
        OrderCommand order = command;
        order.command = OrderCommandType.CANCEL_ORDER;
        order.resultCode = CommandResultCode.VALID_FOR_MATCHING_ENGINE;
        order.orderId = flow.orderId[index];
        order.uid = flow.user[index];
        order.matcherEvent = null;
        IOrderBook.processCommand(book, order);
    }
}
