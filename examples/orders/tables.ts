import { sql } from '../database.ts'

/** Makes the tables of the shop, with something in stock and on two cards. */
export async function prepare(): Promise<void> {
  await sql.unsafe(`
    create schema if not exists shop;
    create table if not exists shop.stock (
      sku       text primary key,
      available int not null check (available >= 0)
    );
    create table if not exists shop.card (
      number        text primary key,
      balance_cents int not null check (balance_cents >= 0)
    );
    create table if not exists shop.parcel (
      order_id int,
      no       int,
      sku      text not null,
      quantity int not null,
      tracking text,
      primary key (order_id, no)
    );
    create table if not exists shop.invoice (
      no       int generated always as identity primary key,
      order_id int not null unique,
      cents    int not null
    );
    create table if not exists shop.ledger (
      id       int generated always as identity primary key,
      order_id int not null,
      entry    text not null
    );
    insert into shop.stock values ('lamp', 20), ('anvil', 5) on conflict do nothing;
    insert into shop.card values ('4242', 500000), ('0001', 10) on conflict do nothing`)
}
