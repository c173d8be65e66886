import { sql } from '../database.ts'

/** Makes the tables of the shop: the checks are what a job can run into. */
export async function createTables(): Promise<void> {
  await sql.unsafe(`
    create schema shop;
    create table shop.stock (
      sku       text primary key,
      available int not null check (available >= 0)
    );
    create table shop.card (
      number        text primary key,
      balance_cents int not null check (balance_cents >= 0)
    );
    create table shop.parcel (
      order_id int,
      no       int,
      sku      text not null,
      quantity int not null,
      tracking text,
      primary key (order_id, no)
    );
    create table shop.invoice (
      no       int generated always as identity primary key,
      order_id int not null unique,
      cents    int not null
    );
    create table shop.ledger (
      id       int generated always as identity primary key,
      order_id int not null,
      entry    text not null
    )`)
}
